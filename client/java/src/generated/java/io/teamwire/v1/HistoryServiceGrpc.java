package io.teamwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
 * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
 * requests that concern it, and what happens to the team, its members and its tasks.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class HistoryServiceGrpc {

  private HistoryServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "teamwire.v1.HistoryService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListHistoryRequest,
      io.teamwire.v1.ListHistoryResponse> getListHistoryMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListHistory",
      requestType = io.teamwire.v1.ListHistoryRequest.class,
      responseType = io.teamwire.v1.ListHistoryResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListHistoryRequest,
      io.teamwire.v1.ListHistoryResponse> getListHistoryMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListHistoryRequest, io.teamwire.v1.ListHistoryResponse> getListHistoryMethod;
    if ((getListHistoryMethod = HistoryServiceGrpc.getListHistoryMethod) == null) {
      synchronized (HistoryServiceGrpc.class) {
        if ((getListHistoryMethod = HistoryServiceGrpc.getListHistoryMethod) == null) {
          HistoryServiceGrpc.getListHistoryMethod = getListHistoryMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListHistoryRequest, io.teamwire.v1.ListHistoryResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListHistory"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListHistoryRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListHistoryResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HistoryServiceMethodDescriptorSupplier("ListHistory"))
              .build();
        }
      }
    }
    return getListHistoryMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.FollowHistoryRequest,
      io.teamwire.v1.FollowHistoryResponse> getFollowHistoryMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FollowHistory",
      requestType = io.teamwire.v1.FollowHistoryRequest.class,
      responseType = io.teamwire.v1.FollowHistoryResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.FollowHistoryRequest,
      io.teamwire.v1.FollowHistoryResponse> getFollowHistoryMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.FollowHistoryRequest, io.teamwire.v1.FollowHistoryResponse> getFollowHistoryMethod;
    if ((getFollowHistoryMethod = HistoryServiceGrpc.getFollowHistoryMethod) == null) {
      synchronized (HistoryServiceGrpc.class) {
        if ((getFollowHistoryMethod = HistoryServiceGrpc.getFollowHistoryMethod) == null) {
          HistoryServiceGrpc.getFollowHistoryMethod = getFollowHistoryMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.FollowHistoryRequest, io.teamwire.v1.FollowHistoryResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FollowHistory"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.FollowHistoryRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.FollowHistoryResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HistoryServiceMethodDescriptorSupplier("FollowHistory"))
              .build();
        }
      }
    }
    return getFollowHistoryMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static HistoryServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HistoryServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HistoryServiceStub>() {
        @java.lang.Override
        public HistoryServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HistoryServiceStub(channel, callOptions);
        }
      };
    return HistoryServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static HistoryServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HistoryServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HistoryServiceBlockingV2Stub>() {
        @java.lang.Override
        public HistoryServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HistoryServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return HistoryServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static HistoryServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HistoryServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HistoryServiceBlockingStub>() {
        @java.lang.Override
        public HistoryServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HistoryServiceBlockingStub(channel, callOptions);
        }
      };
    return HistoryServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static HistoryServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HistoryServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HistoryServiceFutureStub>() {
        @java.lang.Override
        public HistoryServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HistoryServiceFutureStub(channel, callOptions);
        }
      };
    return HistoryServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists a part of the history, the oldest entry first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void listHistory(io.teamwire.v1.ListHistoryRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListHistoryResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListHistoryMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams the history from a place on, and then every new entry. Ends with an error when the team is deleted
     * (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator goes away (UNAVAILABLE: DRAINING): resume after the last
     * sequence seen.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void followHistory(io.teamwire.v1.FollowHistoryRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.FollowHistoryResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFollowHistoryMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service HistoryService.
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public static abstract class HistoryServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return HistoryServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service HistoryService.
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public static final class HistoryServiceStub
      extends io.grpc.stub.AbstractAsyncStub<HistoryServiceStub> {
    private HistoryServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HistoryServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HistoryServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists a part of the history, the oldest entry first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void listHistory(io.teamwire.v1.ListHistoryRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListHistoryResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListHistoryMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams the history from a place on, and then every new entry. Ends with an error when the team is deleted
     * (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator goes away (UNAVAILABLE: DRAINING): resume after the last
     * sequence seen.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void followHistory(io.teamwire.v1.FollowHistoryRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.FollowHistoryResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getFollowHistoryMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service HistoryService.
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public static final class HistoryServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<HistoryServiceBlockingV2Stub> {
    private HistoryServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HistoryServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HistoryServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists a part of the history, the oldest entry first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListHistoryResponse listHistory(io.teamwire.v1.ListHistoryRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListHistoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams the history from a place on, and then every new entry. Ends with an error when the team is deleted
     * (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator goes away (UNAVAILABLE: DRAINING): resume after the last
     * sequence seen.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.teamwire.v1.FollowHistoryResponse>
        followHistory(io.teamwire.v1.FollowHistoryRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getFollowHistoryMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service HistoryService.
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public static final class HistoryServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<HistoryServiceBlockingStub> {
    private HistoryServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HistoryServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HistoryServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists a part of the history, the oldest entry first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListHistoryResponse listHistory(io.teamwire.v1.ListHistoryRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListHistoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams the history from a place on, and then every new entry. Ends with an error when the team is deleted
     * (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator goes away (UNAVAILABLE: DRAINING): resume after the last
     * sequence seen.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public java.util.Iterator<io.teamwire.v1.FollowHistoryResponse> followHistory(
        io.teamwire.v1.FollowHistoryRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getFollowHistoryMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service HistoryService.
   * <pre>
   * Reads the history of a team. What is said of credentials and errors at MessageService holds here too.
   * The lead, the operator and observers see all of it. A teammate sees the messages that it sent or received, the
   * requests that concern it, and what happens to the team, its members and its tasks.
   * </pre>
   */
  public static final class HistoryServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<HistoryServiceFutureStub> {
    private HistoryServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HistoryServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HistoryServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists a part of the history, the oldest entry first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListHistoryResponse> listHistory(
        io.teamwire.v1.ListHistoryRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListHistoryMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_HISTORY = 0;
  private static final int METHODID_FOLLOW_HISTORY = 1;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_LIST_HISTORY:
          serviceImpl.listHistory((io.teamwire.v1.ListHistoryRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListHistoryResponse>) responseObserver);
          break;
        case METHODID_FOLLOW_HISTORY:
          serviceImpl.followHistory((io.teamwire.v1.FollowHistoryRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.FollowHistoryResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getListHistoryMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListHistoryRequest,
              io.teamwire.v1.ListHistoryResponse>(
                service, METHODID_LIST_HISTORY)))
        .addMethod(
          getFollowHistoryMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.teamwire.v1.FollowHistoryRequest,
              io.teamwire.v1.FollowHistoryResponse>(
                service, METHODID_FOLLOW_HISTORY)))
        .build();
  }

  private static abstract class HistoryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    HistoryServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.teamwire.v1.History.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("HistoryService");
    }
  }

  private static final class HistoryServiceFileDescriptorSupplier
      extends HistoryServiceBaseDescriptorSupplier {
    HistoryServiceFileDescriptorSupplier() {}
  }

  private static final class HistoryServiceMethodDescriptorSupplier
      extends HistoryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    HistoryServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (HistoryServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new HistoryServiceFileDescriptorSupplier())
              .addMethod(getListHistoryMethod())
              .addMethod(getFollowHistoryMethod())
              .build();
        }
      }
    }
    return result;
  }
}
