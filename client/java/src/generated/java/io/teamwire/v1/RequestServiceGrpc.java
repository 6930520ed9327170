package io.teamwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
 * MessageService holds here too.
 * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class RequestServiceGrpc {

  private RequestServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "teamwire.v1.RequestService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.GetRequestRequest,
      io.teamwire.v1.GetRequestResponse> getGetRequestMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetRequest",
      requestType = io.teamwire.v1.GetRequestRequest.class,
      responseType = io.teamwire.v1.GetRequestResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.GetRequestRequest,
      io.teamwire.v1.GetRequestResponse> getGetRequestMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.GetRequestRequest, io.teamwire.v1.GetRequestResponse> getGetRequestMethod;
    if ((getGetRequestMethod = RequestServiceGrpc.getGetRequestMethod) == null) {
      synchronized (RequestServiceGrpc.class) {
        if ((getGetRequestMethod = RequestServiceGrpc.getGetRequestMethod) == null) {
          RequestServiceGrpc.getGetRequestMethod = getGetRequestMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.GetRequestRequest, io.teamwire.v1.GetRequestResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetRequest"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetRequestRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetRequestResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RequestServiceMethodDescriptorSupplier("GetRequest"))
              .build();
        }
      }
    }
    return getGetRequestMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListRequestsRequest,
      io.teamwire.v1.ListRequestsResponse> getListRequestsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListRequests",
      requestType = io.teamwire.v1.ListRequestsRequest.class,
      responseType = io.teamwire.v1.ListRequestsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListRequestsRequest,
      io.teamwire.v1.ListRequestsResponse> getListRequestsMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListRequestsRequest, io.teamwire.v1.ListRequestsResponse> getListRequestsMethod;
    if ((getListRequestsMethod = RequestServiceGrpc.getListRequestsMethod) == null) {
      synchronized (RequestServiceGrpc.class) {
        if ((getListRequestsMethod = RequestServiceGrpc.getListRequestsMethod) == null) {
          RequestServiceGrpc.getListRequestsMethod = getListRequestsMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListRequestsRequest, io.teamwire.v1.ListRequestsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListRequests"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListRequestsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListRequestsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RequestServiceMethodDescriptorSupplier("ListRequests"))
              .build();
        }
      }
    }
    return getListRequestsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.WaitForDecisionRequest,
      io.teamwire.v1.WaitForDecisionResponse> getWaitForDecisionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WaitForDecision",
      requestType = io.teamwire.v1.WaitForDecisionRequest.class,
      responseType = io.teamwire.v1.WaitForDecisionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.WaitForDecisionRequest,
      io.teamwire.v1.WaitForDecisionResponse> getWaitForDecisionMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.WaitForDecisionRequest, io.teamwire.v1.WaitForDecisionResponse> getWaitForDecisionMethod;
    if ((getWaitForDecisionMethod = RequestServiceGrpc.getWaitForDecisionMethod) == null) {
      synchronized (RequestServiceGrpc.class) {
        if ((getWaitForDecisionMethod = RequestServiceGrpc.getWaitForDecisionMethod) == null) {
          RequestServiceGrpc.getWaitForDecisionMethod = getWaitForDecisionMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.WaitForDecisionRequest, io.teamwire.v1.WaitForDecisionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WaitForDecision"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.WaitForDecisionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.WaitForDecisionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RequestServiceMethodDescriptorSupplier("WaitForDecision"))
              .build();
        }
      }
    }
    return getWaitForDecisionMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static RequestServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RequestServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RequestServiceStub>() {
        @java.lang.Override
        public RequestServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RequestServiceStub(channel, callOptions);
        }
      };
    return RequestServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static RequestServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RequestServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RequestServiceBlockingV2Stub>() {
        @java.lang.Override
        public RequestServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RequestServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return RequestServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static RequestServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RequestServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RequestServiceBlockingStub>() {
        @java.lang.Override
        public RequestServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RequestServiceBlockingStub(channel, callOptions);
        }
      };
    return RequestServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static RequestServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RequestServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RequestServiceFutureStub>() {
        @java.lang.Override
        public RequestServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RequestServiceFutureStub(channel, callOptions);
        }
      };
    return RequestServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Returns one request.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    default void getRequest(io.teamwire.v1.GetRequestRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetRequestResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetRequestMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists requests, the newest first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void listRequests(io.teamwire.v1.ListRequestsRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListRequestsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListRequestsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns the request as soon as it is no longer pending, or as it is when the time is over.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID, INVALID_FIELD. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    default void waitForDecision(io.teamwire.v1.WaitForDecisionRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.WaitForDecisionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWaitForDecisionMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service RequestService.
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public static abstract class RequestServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return RequestServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service RequestService.
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public static final class RequestServiceStub
      extends io.grpc.stub.AbstractAsyncStub<RequestServiceStub> {
    private RequestServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RequestServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RequestServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns one request.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public void getRequest(io.teamwire.v1.GetRequestRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetRequestResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetRequestMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists requests, the newest first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void listRequests(io.teamwire.v1.ListRequestsRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListRequestsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListRequestsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns the request as soon as it is no longer pending, or as it is when the time is over.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID, INVALID_FIELD. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public void waitForDecision(io.teamwire.v1.WaitForDecisionRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.WaitForDecisionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getWaitForDecisionMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service RequestService.
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public static final class RequestServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<RequestServiceBlockingV2Stub> {
    private RequestServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RequestServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RequestServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns one request.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.GetRequestResponse getRequest(io.teamwire.v1.GetRequestRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetRequestMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists requests, the newest first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListRequestsResponse listRequests(io.teamwire.v1.ListRequestsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListRequestsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the request as soon as it is no longer pending, or as it is when the time is over.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID, INVALID_FIELD. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.WaitForDecisionResponse waitForDecision(io.teamwire.v1.WaitForDecisionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getWaitForDecisionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service RequestService.
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public static final class RequestServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<RequestServiceBlockingStub> {
    private RequestServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RequestServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RequestServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns one request.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.GetRequestResponse getRequest(io.teamwire.v1.GetRequestRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetRequestMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists requests, the newest first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListRequestsResponse listRequests(io.teamwire.v1.ListRequestsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListRequestsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the request as soon as it is no longer pending, or as it is when the time is over.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID, INVALID_FIELD. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.WaitForDecisionResponse waitForDecision(io.teamwire.v1.WaitForDecisionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getWaitForDecisionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service RequestService.
   * <pre>
   * Looks up requests. They are made and answered with MessageService.Send. What is said of credentials and errors at
   * MessageService holds here too.
   * A request is visible to its requester, to the member that it concerns, to the lead, the operator and observers.
   * </pre>
   */
  public static final class RequestServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<RequestServiceFutureStub> {
    private RequestServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RequestServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RequestServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns one request.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.GetRequestResponse> getRequest(
        io.teamwire.v1.GetRequestRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetRequestMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists requests, the newest first.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListRequestsResponse> listRequests(
        io.teamwire.v1.ListRequestsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListRequestsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns the request as soon as it is no longer pending, or as it is when the time is over.
     * INVALID_ARGUMENT: INVALID_REQUEST_ID, INVALID_FIELD. NOT_FOUND: REQUEST_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.WaitForDecisionResponse> waitForDecision(
        io.teamwire.v1.WaitForDecisionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getWaitForDecisionMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_REQUEST = 0;
  private static final int METHODID_LIST_REQUESTS = 1;
  private static final int METHODID_WAIT_FOR_DECISION = 2;

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
        case METHODID_GET_REQUEST:
          serviceImpl.getRequest((io.teamwire.v1.GetRequestRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.GetRequestResponse>) responseObserver);
          break;
        case METHODID_LIST_REQUESTS:
          serviceImpl.listRequests((io.teamwire.v1.ListRequestsRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListRequestsResponse>) responseObserver);
          break;
        case METHODID_WAIT_FOR_DECISION:
          serviceImpl.waitForDecision((io.teamwire.v1.WaitForDecisionRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.WaitForDecisionResponse>) responseObserver);
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
          getGetRequestMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.GetRequestRequest,
              io.teamwire.v1.GetRequestResponse>(
                service, METHODID_GET_REQUEST)))
        .addMethod(
          getListRequestsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListRequestsRequest,
              io.teamwire.v1.ListRequestsResponse>(
                service, METHODID_LIST_REQUESTS)))
        .addMethod(
          getWaitForDecisionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.WaitForDecisionRequest,
              io.teamwire.v1.WaitForDecisionResponse>(
                service, METHODID_WAIT_FOR_DECISION)))
        .build();
  }

  private static abstract class RequestServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    RequestServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.teamwire.v1.RequestOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("RequestService");
    }
  }

  private static final class RequestServiceFileDescriptorSupplier
      extends RequestServiceBaseDescriptorSupplier {
    RequestServiceFileDescriptorSupplier() {}
  }

  private static final class RequestServiceMethodDescriptorSupplier
      extends RequestServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    RequestServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (RequestServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new RequestServiceFileDescriptorSupplier())
              .addMethod(getGetRequestMethod())
              .addMethod(getListRequestsMethod())
              .addMethod(getWaitForDecisionMethod())
              .build();
        }
      }
    }
    return result;
  }
}
