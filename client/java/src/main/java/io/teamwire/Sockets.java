package io.teamwire;

import io.grpc.ManagedChannelBuilder;
import io.grpc.Status.Code;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
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
    private static final int WRITABLE_BY_OTHERS = 022;
    private static final int STICKY = 01000;

    /** Shared by all channels. Its threads end with the program. */
    private static final class Threads {
        static final EpollEventLoopGroup GROUP =
                new EpollEventLoopGroup(1, new DefaultThreadFactory("teamwire-socket", true));
    }

    private Sockets() {}

    static ManagedChannelBuilder<?> channelBuilder(String path) {
        if (!Epoll.isAvailable()) {
            throw new TeamwireException(
                    Code.INVALID_ARGUMENT,
                    "The Java client can use a Unix socket only on Linux. Use the coordinator's https address.");
        }
        refuseForeign(Path.of(path));
        return NettyChannelBuilder.forAddress(new DomainSocketAddress(path))
                .eventLoopGroup(Threads.GROUP)
                .channelType(EpollDomainSocketChannel.class)
                .overrideAuthority("localhost")
                .usePlaintext();
    }

    /** Throws if a socket is not this user's or root's, or if others could have put it there. */
    static void refuseForeign(Path path) {
        for (var place : new Path[] {path.toAbsolutePath().getParent(), path}) {
            try {
                var owner = Files.getOwner(place).getName();
                var mode = (int) Files.getAttribute(place, "unix:mode");
                var isOurs = owner.equals("root") || owner.equals(System.getProperty("user.name"));
                var isShared = Files.isDirectory(place) && (mode & WRITABLE_BY_OTHERS) != 0 && (mode & STICKY) == 0;
                if (!isOurs || isShared) {
                    throw new TeamwireException(
                            Code.UNAUTHENTICATED,
                            place + " belongs to " + owner + " or can be changed by others, so nothing is sent to a"
                                    + " coordinator there.");
                }
            } catch (IOException e) {
                // Connecting reports a missing one.
                return;
            }
        }
    }
}
