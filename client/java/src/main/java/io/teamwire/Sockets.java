package io.teamwire;

import io.grpc.ManagedChannelBuilder;
import io.grpc.Status.Code;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.Channel;
import io.grpc.netty.shaded.io.netty.channel.ChannelHandlerContext;
import io.grpc.netty.shaded.io.netty.channel.ChannelInboundHandlerAdapter;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/** Unix sockets, which this client can use on Linux. */
final class Sockets {
    private static final int WRITABLE_BY_OTHERS = 0022;

    /** Shared by all channels. Its threads end with the program. */
    private static final class Threads {
        static final EpollEventLoopGroup GROUP =
                new EpollEventLoopGroup(1, new DefaultThreadFactory("teamwire-socket", true));
    }

    /** Closes a connection, before anything is sent, unless it is certain who listens. Each connection has its own. */
    private static final class KnownUsersOnly extends ChannelInboundHandlerAdapter {
        private final Path path;

        KnownUsersOnly(Path path) {
            this.path = path;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) throws Exception {
            try {
                refuseForeign(
                        ((EpollDomainSocketChannel) context.channel())
                                .peerCredentials()
                                .uid(),
                        path);
            } catch (IOException e) {
                context.fireExceptionCaught(e);
                context.close();
                return;
            }
            super.channelActive(context);
        }
    }

    private Sockets() {}

    static ManagedChannelBuilder<?> channelBuilder(String path) {
        if (!Epoll.isAvailable()) {
            throw new TeamwireException(
                    Code.INVALID_ARGUMENT,
                    "The Java client can use a Unix socket only on Linux. Use the coordinator's https address.");
        }
        return NettyChannelBuilder.forAddress(new DomainSocketAddress(path))
                .eventLoopGroup(Threads.GROUP)
                .channelFactory(() -> channel(Path.of(path)))
                .overrideAuthority("localhost")
                .usePlaintext();
    }

    private static Channel channel(Path path) {
        var channel = new EpollDomainSocketChannel();
        channel.pipeline().addFirst(new KnownUsersOnly(path));
        return channel;
    }

    /** Throws unless a user is this one or root, or only that user and root could have put the socket at its path. */
    static void refuseForeign(int user, Path path) throws IOException {
        if (user == 0 || user == (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid")) {
            return;
        }
        for (var place = path; place != null; place = place.getParent()) {
            var found =
                    Files.readAttributes(place, "unix:uid,mode,isDirectory,isSymbolicLink", LinkOption.NOFOLLOW_LINKS);
            var owner = (int) found.get("uid");
            var isShared = (boolean) found.get("isDirectory") && ((int) found.get("mode") & WRITABLE_BY_OTHERS) != 0;
            if (owner != 0 && owner != user || isShared || (boolean) found.get("isSymbolicLink")) {
                throw new IOException("User " + user + " listens there, and " + place + " belongs to user " + owner
                        + " or can be changed by others, so nothing is sent.");
            }
        }
    }
}
