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
import java.nio.file.Path;

/** Unix sockets, which this client can use on Linux. */
final class Sockets {
    /** Shared by all channels. Its threads end with the program. */
    private static final class Threads {
        static final EpollEventLoopGroup GROUP =
                new EpollEventLoopGroup(1, new DefaultThreadFactory("teamwire-socket", true));
    }

    /** Closes a connection, before anything is sent, unless this user or root listens. Each connection has its own. */
    private static final class OwnUsersOnly extends ChannelInboundHandlerAdapter {
        @Override
        public void channelActive(ChannelHandlerContext context) throws Exception {
            try {
                refuseForeign(((EpollDomainSocketChannel) context.channel())
                        .peerCredentials()
                        .uid());
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
                .channelFactory(Sockets::channel)
                .overrideAuthority("localhost")
                .usePlaintext();
    }

    private static Channel channel() {
        var channel = new EpollDomainSocketChannel();
        channel.pipeline().addFirst(new OwnUsersOnly());
        return channel;
    }

    /** Throws if a user is neither this one nor root. */
    static void refuseForeign(int user) throws IOException {
        if (user != 0 && user != (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid")) {
            throw new IOException("User " + user + " listens there, so nothing is sent.");
        }
    }
}
