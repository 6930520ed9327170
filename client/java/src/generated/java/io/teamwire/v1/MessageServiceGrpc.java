package io.teamwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Carries messages between the members of one team.
 * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
 * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
 * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
 * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
 * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
 * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
 * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
 * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
 * (INVALID_ARGUMENT).
 * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
 * the coordinator's store is to wait for).
 * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
 * idempotency key.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class MessageServiceGrpc {

  private MessageServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "teamwire.v1.MessageService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.SendRequest,
      io.teamwire.v1.SendResponse> getSendMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Send",
      requestType = io.teamwire.v1.SendRequest.class,
      responseType = io.teamwire.v1.SendResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.SendRequest,
      io.teamwire.v1.SendResponse> getSendMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.SendRequest, io.teamwire.v1.SendResponse> getSendMethod;
    if ((getSendMethod = MessageServiceGrpc.getSendMethod) == null) {
      synchronized (MessageServiceGrpc.class) {
        if ((getSendMethod = MessageServiceGrpc.getSendMethod) == null) {
          MessageServiceGrpc.getSendMethod = getSendMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.SendRequest, io.teamwire.v1.SendResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Send"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.SendRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.SendResponse.getDefaultInstance()))
              .setSchemaDescriptor(new MessageServiceMethodDescriptorSupplier("Send"))
              .build();
        }
      }
    }
    return getSendMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.StreamRequest,
      io.teamwire.v1.StreamResponse> getStreamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Stream",
      requestType = io.teamwire.v1.StreamRequest.class,
      responseType = io.teamwire.v1.StreamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.StreamRequest,
      io.teamwire.v1.StreamResponse> getStreamMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.StreamRequest, io.teamwire.v1.StreamResponse> getStreamMethod;
    if ((getStreamMethod = MessageServiceGrpc.getStreamMethod) == null) {
      synchronized (MessageServiceGrpc.class) {
        if ((getStreamMethod = MessageServiceGrpc.getStreamMethod) == null) {
          MessageServiceGrpc.getStreamMethod = getStreamMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.StreamRequest, io.teamwire.v1.StreamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Stream"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.StreamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.StreamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new MessageServiceMethodDescriptorSupplier("Stream"))
              .build();
        }
      }
    }
    return getStreamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.AckRequest,
      io.teamwire.v1.AckResponse> getAckMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Ack",
      requestType = io.teamwire.v1.AckRequest.class,
      responseType = io.teamwire.v1.AckResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.AckRequest,
      io.teamwire.v1.AckResponse> getAckMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.AckRequest, io.teamwire.v1.AckResponse> getAckMethod;
    if ((getAckMethod = MessageServiceGrpc.getAckMethod) == null) {
      synchronized (MessageServiceGrpc.class) {
        if ((getAckMethod = MessageServiceGrpc.getAckMethod) == null) {
          MessageServiceGrpc.getAckMethod = getAckMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.AckRequest, io.teamwire.v1.AckResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Ack"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.AckRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.AckResponse.getDefaultInstance()))
              .setSchemaDescriptor(new MessageServiceMethodDescriptorSupplier("Ack"))
              .build();
        }
      }
    }
    return getAckMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.GetMessageRequest,
      io.teamwire.v1.GetMessageResponse> getGetMessageMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetMessage",
      requestType = io.teamwire.v1.GetMessageRequest.class,
      responseType = io.teamwire.v1.GetMessageResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.GetMessageRequest,
      io.teamwire.v1.GetMessageResponse> getGetMessageMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.GetMessageRequest, io.teamwire.v1.GetMessageResponse> getGetMessageMethod;
    if ((getGetMessageMethod = MessageServiceGrpc.getGetMessageMethod) == null) {
      synchronized (MessageServiceGrpc.class) {
        if ((getGetMessageMethod = MessageServiceGrpc.getGetMessageMethod) == null) {
          MessageServiceGrpc.getGetMessageMethod = getGetMessageMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.GetMessageRequest, io.teamwire.v1.GetMessageResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetMessage"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetMessageRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetMessageResponse.getDefaultInstance()))
              .setSchemaDescriptor(new MessageServiceMethodDescriptorSupplier("GetMessage"))
              .build();
        }
      }
    }
    return getGetMessageMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListInboxRequest,
      io.teamwire.v1.ListInboxResponse> getListInboxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListInbox",
      requestType = io.teamwire.v1.ListInboxRequest.class,
      responseType = io.teamwire.v1.ListInboxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListInboxRequest,
      io.teamwire.v1.ListInboxResponse> getListInboxMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListInboxRequest, io.teamwire.v1.ListInboxResponse> getListInboxMethod;
    if ((getListInboxMethod = MessageServiceGrpc.getListInboxMethod) == null) {
      synchronized (MessageServiceGrpc.class) {
        if ((getListInboxMethod = MessageServiceGrpc.getListInboxMethod) == null) {
          MessageServiceGrpc.getListInboxMethod = getListInboxMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListInboxRequest, io.teamwire.v1.ListInboxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListInbox"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListInboxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListInboxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new MessageServiceMethodDescriptorSupplier("ListInbox"))
              .build();
        }
      }
    }
    return getListInboxMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static MessageServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<MessageServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<MessageServiceStub>() {
        @java.lang.Override
        public MessageServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new MessageServiceStub(channel, callOptions);
        }
      };
    return MessageServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static MessageServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<MessageServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<MessageServiceBlockingV2Stub>() {
        @java.lang.Override
        public MessageServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new MessageServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return MessageServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static MessageServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<MessageServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<MessageServiceBlockingStub>() {
        @java.lang.Override
        public MessageServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new MessageServiceBlockingStub(channel, callOptions);
        }
      };
    return MessageServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static MessageServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<MessageServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<MessageServiceFutureStub>() {
        @java.lang.Override
        public MessageServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new MessageServiceFutureStub(channel, callOptions);
        }
      };
    return MessageServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Sends one message of any of the six kinds.
     * OK means: validated, authorised, appended to the inbox of every recipient and to the history, and recorded for
     * de-duplication, in one atomic step, with the durability that the reply names. Any error of the list below means
     * that nothing was changed.
     * INVALID_ARGUMENT: INVALID_TYPE, MISSING_RECIPIENT, UNEXPECTED_RECIPIENT, SELF_RECIPIENT, TEAM_MISMATCH,
     * INVALID_NAME, MISSING_CONTENT, CONTENT_TOO_LARGE, MISSING_SUMMARY, INVALID_SUMMARY, INVALID_REQUEST_ID,
     * APPROVE_MISSING, RECIPIENT_MISMATCH, INVALID_IDEMPOTENCY_KEY, INVALID_ATTACHMENT, INVALID_MESSAGE_ID.
     * NOT_FOUND: AGENT_NOT_FOUND, REQUEST_NOT_FOUND, TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY, NOT_REQUEST_TARGET,
     * NOT_PERMITTED. FAILED_PRECONDITION: AGENT_EXITED, REQUEST_KIND_MISMATCH, ALREADY_DECIDED, REQUEST_EXPIRED,
     * REQUEST_CANCELLED. ALREADY_EXISTS: SHUTDOWN_PENDING, IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: INBOX_FULL,
     * QUOTA_EXCEEDED, RATE_LIMITED (with RetryInfo: when the next send may come; a repeated send counts like any other).
     * ABORTED: SESSION_SUPERSEDED.
     * </pre>
     */
    default void send(io.teamwire.v1.SendRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.SendResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSendMethod(), responseObserver);
    }

    /**
     * <pre>
     * Opens a session on the caller's own inbox and streams it.
     * The first frame is `opened`. Then comes every unprocessed message in the order of the inbox, then new ones as they
     * arrive, with heartbeats between. The newest session wins: an older one receives a last frame `closing` with
     * CLOSE_REASON_SUPERSEDED and ends. A client that reconnects need say nothing of what it has seen: what it has not
     * acknowledged comes again, with a higher delivery count.
     * PERMISSION_DENIED: NOT_PERMITTED (the credential has no inbox). RESOURCE_EXHAUSTED: SLOW_CONSUMER, when the client
     * has read nothing for 30 s while frames were waiting. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    default void stream(io.teamwire.v1.StreamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.StreamResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStreamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Marks messages as processed; they leave the inbox. Acknowledging twice is fine.
     * ABORTED: SESSION_SUPERSEDED. INVALID_ARGUMENT: INVALID_MESSAGE_ID, INVALID_FIELD (over 1,000 ids).
     * </pre>
     */
    default void ack(io.teamwire.v1.AckRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.AckResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAckMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns a message with one receipt for each recipient. Permitted to its sender, its recipients, the lead, the
     * operator and observers of the team.
     * NOT_FOUND: MESSAGE_NOT_FOUND, also when it is not the caller's to see. INVALID_ARGUMENT: INVALID_MESSAGE_ID.
     * </pre>
     */
    default void getMessage(io.teamwire.v1.GetMessageRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetMessageResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetMessageMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the unprocessed messages of an inbox without opening a session: nothing is marked as delivered. The lead, the
     * operator and observers may look at everybody's, others at their own.
     * PERMISSION_DENIED: NOT_PERMITTED (the operator and observers have no inbox of their own), LEAD_ONLY.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: AGENT_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    default void listInbox(io.teamwire.v1.ListInboxRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListInboxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListInboxMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service MessageService.
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public static abstract class MessageServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return MessageServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service MessageService.
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public static final class MessageServiceStub
      extends io.grpc.stub.AbstractAsyncStub<MessageServiceStub> {
    private MessageServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected MessageServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new MessageServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Sends one message of any of the six kinds.
     * OK means: validated, authorised, appended to the inbox of every recipient and to the history, and recorded for
     * de-duplication, in one atomic step, with the durability that the reply names. Any error of the list below means
     * that nothing was changed.
     * INVALID_ARGUMENT: INVALID_TYPE, MISSING_RECIPIENT, UNEXPECTED_RECIPIENT, SELF_RECIPIENT, TEAM_MISMATCH,
     * INVALID_NAME, MISSING_CONTENT, CONTENT_TOO_LARGE, MISSING_SUMMARY, INVALID_SUMMARY, INVALID_REQUEST_ID,
     * APPROVE_MISSING, RECIPIENT_MISMATCH, INVALID_IDEMPOTENCY_KEY, INVALID_ATTACHMENT, INVALID_MESSAGE_ID.
     * NOT_FOUND: AGENT_NOT_FOUND, REQUEST_NOT_FOUND, TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY, NOT_REQUEST_TARGET,
     * NOT_PERMITTED. FAILED_PRECONDITION: AGENT_EXITED, REQUEST_KIND_MISMATCH, ALREADY_DECIDED, REQUEST_EXPIRED,
     * REQUEST_CANCELLED. ALREADY_EXISTS: SHUTDOWN_PENDING, IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: INBOX_FULL,
     * QUOTA_EXCEEDED, RATE_LIMITED (with RetryInfo: when the next send may come; a repeated send counts like any other).
     * ABORTED: SESSION_SUPERSEDED.
     * </pre>
     */
    public void send(io.teamwire.v1.SendRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.SendResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSendMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Opens a session on the caller's own inbox and streams it.
     * The first frame is `opened`. Then comes every unprocessed message in the order of the inbox, then new ones as they
     * arrive, with heartbeats between. The newest session wins: an older one receives a last frame `closing` with
     * CLOSE_REASON_SUPERSEDED and ends. A client that reconnects need say nothing of what it has seen: what it has not
     * acknowledged comes again, with a higher delivery count.
     * PERMISSION_DENIED: NOT_PERMITTED (the credential has no inbox). RESOURCE_EXHAUSTED: SLOW_CONSUMER, when the client
     * has read nothing for 30 s while frames were waiting. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public void stream(io.teamwire.v1.StreamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.StreamResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getStreamMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Marks messages as processed; they leave the inbox. Acknowledging twice is fine.
     * ABORTED: SESSION_SUPERSEDED. INVALID_ARGUMENT: INVALID_MESSAGE_ID, INVALID_FIELD (over 1,000 ids).
     * </pre>
     */
    public void ack(io.teamwire.v1.AckRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.AckResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAckMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns a message with one receipt for each recipient. Permitted to its sender, its recipients, the lead, the
     * operator and observers of the team.
     * NOT_FOUND: MESSAGE_NOT_FOUND, also when it is not the caller's to see. INVALID_ARGUMENT: INVALID_MESSAGE_ID.
     * </pre>
     */
    public void getMessage(io.teamwire.v1.GetMessageRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetMessageResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetMessageMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the unprocessed messages of an inbox without opening a session: nothing is marked as delivered. The lead, the
     * operator and observers may look at everybody's, others at their own.
     * PERMISSION_DENIED: NOT_PERMITTED (the operator and observers have no inbox of their own), LEAD_ONLY.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: AGENT_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public void listInbox(io.teamwire.v1.ListInboxRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListInboxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListInboxMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service MessageService.
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public static final class MessageServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<MessageServiceBlockingV2Stub> {
    private MessageServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected MessageServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new MessageServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Sends one message of any of the six kinds.
     * OK means: validated, authorised, appended to the inbox of every recipient and to the history, and recorded for
     * de-duplication, in one atomic step, with the durability that the reply names. Any error of the list below means
     * that nothing was changed.
     * INVALID_ARGUMENT: INVALID_TYPE, MISSING_RECIPIENT, UNEXPECTED_RECIPIENT, SELF_RECIPIENT, TEAM_MISMATCH,
     * INVALID_NAME, MISSING_CONTENT, CONTENT_TOO_LARGE, MISSING_SUMMARY, INVALID_SUMMARY, INVALID_REQUEST_ID,
     * APPROVE_MISSING, RECIPIENT_MISMATCH, INVALID_IDEMPOTENCY_KEY, INVALID_ATTACHMENT, INVALID_MESSAGE_ID.
     * NOT_FOUND: AGENT_NOT_FOUND, REQUEST_NOT_FOUND, TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY, NOT_REQUEST_TARGET,
     * NOT_PERMITTED. FAILED_PRECONDITION: AGENT_EXITED, REQUEST_KIND_MISMATCH, ALREADY_DECIDED, REQUEST_EXPIRED,
     * REQUEST_CANCELLED. ALREADY_EXISTS: SHUTDOWN_PENDING, IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: INBOX_FULL,
     * QUOTA_EXCEEDED, RATE_LIMITED (with RetryInfo: when the next send may come; a repeated send counts like any other).
     * ABORTED: SESSION_SUPERSEDED.
     * </pre>
     */
    public io.teamwire.v1.SendResponse send(io.teamwire.v1.SendRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSendMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Opens a session on the caller's own inbox and streams it.
     * The first frame is `opened`. Then comes every unprocessed message in the order of the inbox, then new ones as they
     * arrive, with heartbeats between. The newest session wins: an older one receives a last frame `closing` with
     * CLOSE_REASON_SUPERSEDED and ends. A client that reconnects need say nothing of what it has seen: what it has not
     * acknowledged comes again, with a higher delivery count.
     * PERMISSION_DENIED: NOT_PERMITTED (the credential has no inbox). RESOURCE_EXHAUSTED: SLOW_CONSUMER, when the client
     * has read nothing for 30 s while frames were waiting. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.teamwire.v1.StreamResponse>
        stream(io.teamwire.v1.StreamRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getStreamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Marks messages as processed; they leave the inbox. Acknowledging twice is fine.
     * ABORTED: SESSION_SUPERSEDED. INVALID_ARGUMENT: INVALID_MESSAGE_ID, INVALID_FIELD (over 1,000 ids).
     * </pre>
     */
    public io.teamwire.v1.AckResponse ack(io.teamwire.v1.AckRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAckMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns a message with one receipt for each recipient. Permitted to its sender, its recipients, the lead, the
     * operator and observers of the team.
     * NOT_FOUND: MESSAGE_NOT_FOUND, also when it is not the caller's to see. INVALID_ARGUMENT: INVALID_MESSAGE_ID.
     * </pre>
     */
    public io.teamwire.v1.GetMessageResponse getMessage(io.teamwire.v1.GetMessageRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetMessageMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the unprocessed messages of an inbox without opening a session: nothing is marked as delivered. The lead, the
     * operator and observers may look at everybody's, others at their own.
     * PERMISSION_DENIED: NOT_PERMITTED (the operator and observers have no inbox of their own), LEAD_ONLY.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: AGENT_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListInboxResponse listInbox(io.teamwire.v1.ListInboxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListInboxMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service MessageService.
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public static final class MessageServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<MessageServiceBlockingStub> {
    private MessageServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected MessageServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new MessageServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Sends one message of any of the six kinds.
     * OK means: validated, authorised, appended to the inbox of every recipient and to the history, and recorded for
     * de-duplication, in one atomic step, with the durability that the reply names. Any error of the list below means
     * that nothing was changed.
     * INVALID_ARGUMENT: INVALID_TYPE, MISSING_RECIPIENT, UNEXPECTED_RECIPIENT, SELF_RECIPIENT, TEAM_MISMATCH,
     * INVALID_NAME, MISSING_CONTENT, CONTENT_TOO_LARGE, MISSING_SUMMARY, INVALID_SUMMARY, INVALID_REQUEST_ID,
     * APPROVE_MISSING, RECIPIENT_MISMATCH, INVALID_IDEMPOTENCY_KEY, INVALID_ATTACHMENT, INVALID_MESSAGE_ID.
     * NOT_FOUND: AGENT_NOT_FOUND, REQUEST_NOT_FOUND, TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY, NOT_REQUEST_TARGET,
     * NOT_PERMITTED. FAILED_PRECONDITION: AGENT_EXITED, REQUEST_KIND_MISMATCH, ALREADY_DECIDED, REQUEST_EXPIRED,
     * REQUEST_CANCELLED. ALREADY_EXISTS: SHUTDOWN_PENDING, IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: INBOX_FULL,
     * QUOTA_EXCEEDED, RATE_LIMITED (with RetryInfo: when the next send may come; a repeated send counts like any other).
     * ABORTED: SESSION_SUPERSEDED.
     * </pre>
     */
    public io.teamwire.v1.SendResponse send(io.teamwire.v1.SendRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSendMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Opens a session on the caller's own inbox and streams it.
     * The first frame is `opened`. Then comes every unprocessed message in the order of the inbox, then new ones as they
     * arrive, with heartbeats between. The newest session wins: an older one receives a last frame `closing` with
     * CLOSE_REASON_SUPERSEDED and ends. A client that reconnects need say nothing of what it has seen: what it has not
     * acknowledged comes again, with a higher delivery count.
     * PERMISSION_DENIED: NOT_PERMITTED (the credential has no inbox). RESOURCE_EXHAUSTED: SLOW_CONSUMER, when the client
     * has read nothing for 30 s while frames were waiting. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public java.util.Iterator<io.teamwire.v1.StreamResponse> stream(
        io.teamwire.v1.StreamRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getStreamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Marks messages as processed; they leave the inbox. Acknowledging twice is fine.
     * ABORTED: SESSION_SUPERSEDED. INVALID_ARGUMENT: INVALID_MESSAGE_ID, INVALID_FIELD (over 1,000 ids).
     * </pre>
     */
    public io.teamwire.v1.AckResponse ack(io.teamwire.v1.AckRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAckMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns a message with one receipt for each recipient. Permitted to its sender, its recipients, the lead, the
     * operator and observers of the team.
     * NOT_FOUND: MESSAGE_NOT_FOUND, also when it is not the caller's to see. INVALID_ARGUMENT: INVALID_MESSAGE_ID.
     * </pre>
     */
    public io.teamwire.v1.GetMessageResponse getMessage(io.teamwire.v1.GetMessageRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetMessageMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the unprocessed messages of an inbox without opening a session: nothing is marked as delivered. The lead, the
     * operator and observers may look at everybody's, others at their own.
     * PERMISSION_DENIED: NOT_PERMITTED (the operator and observers have no inbox of their own), LEAD_ONLY.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: AGENT_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListInboxResponse listInbox(io.teamwire.v1.ListInboxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListInboxMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service MessageService.
   * <pre>
   * Carries messages between the members of one team.
   * Every call carries a credential in the metadata key `authorization`, as `Bearer TOKEN`. The sender of a message is
   * whoever that credential names. A client that has a session open adds its id in the metadata key `teamwire-session`;
   * the coordinator then refuses the call with SESSION_SUPERSEDED (ABORTED) once a newer session is open.
   * Errors are a gRPC status plus `google.rpc.ErrorInfo` with domain `teamwire` and one of the reasons named here. Any
   * call may fail with CREDENTIAL_MISSING, CREDENTIAL_INVALID, CREDENTIAL_EXPIRED (UNAUTHENTICATED), MEMBER_STOPPED
   * (FAILED_PRECONDITION: this life of the member has ended; with `may_join` = `true` in its metadata where the credential is
   * still good to begin a new one with TeamService.Join), STORE_UNAVAILABLE or DRAINING (UNAVAILABLE, with RetryInfo),
   * or, if its request is larger than a request may be or cannot be decoded, CONTENT_TOO_LARGE or INVALID_FIELD
   * (INVALID_ARGUMENT).
   * A call that changes something may fail with DURABILITY_NOT_REACHED (UNAVAILABLE: done, but not on as many replicas as
   * the coordinator's store is to wait for).
   * After UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED or UNKNOWN the outcome is not known: retry with the same
   * idempotency key.
   * </pre>
   */
  public static final class MessageServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<MessageServiceFutureStub> {
    private MessageServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected MessageServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new MessageServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Sends one message of any of the six kinds.
     * OK means: validated, authorised, appended to the inbox of every recipient and to the history, and recorded for
     * de-duplication, in one atomic step, with the durability that the reply names. Any error of the list below means
     * that nothing was changed.
     * INVALID_ARGUMENT: INVALID_TYPE, MISSING_RECIPIENT, UNEXPECTED_RECIPIENT, SELF_RECIPIENT, TEAM_MISMATCH,
     * INVALID_NAME, MISSING_CONTENT, CONTENT_TOO_LARGE, MISSING_SUMMARY, INVALID_SUMMARY, INVALID_REQUEST_ID,
     * APPROVE_MISSING, RECIPIENT_MISMATCH, INVALID_IDEMPOTENCY_KEY, INVALID_ATTACHMENT, INVALID_MESSAGE_ID.
     * NOT_FOUND: AGENT_NOT_FOUND, REQUEST_NOT_FOUND, TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY, NOT_REQUEST_TARGET,
     * NOT_PERMITTED. FAILED_PRECONDITION: AGENT_EXITED, REQUEST_KIND_MISMATCH, ALREADY_DECIDED, REQUEST_EXPIRED,
     * REQUEST_CANCELLED. ALREADY_EXISTS: SHUTDOWN_PENDING, IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: INBOX_FULL,
     * QUOTA_EXCEEDED, RATE_LIMITED (with RetryInfo: when the next send may come; a repeated send counts like any other).
     * ABORTED: SESSION_SUPERSEDED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.SendResponse> send(
        io.teamwire.v1.SendRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSendMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Marks messages as processed; they leave the inbox. Acknowledging twice is fine.
     * ABORTED: SESSION_SUPERSEDED. INVALID_ARGUMENT: INVALID_MESSAGE_ID, INVALID_FIELD (over 1,000 ids).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.AckResponse> ack(
        io.teamwire.v1.AckRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAckMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns a message with one receipt for each recipient. Permitted to its sender, its recipients, the lead, the
     * operator and observers of the team.
     * NOT_FOUND: MESSAGE_NOT_FOUND, also when it is not the caller's to see. INVALID_ARGUMENT: INVALID_MESSAGE_ID.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.GetMessageResponse> getMessage(
        io.teamwire.v1.GetMessageRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetMessageMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the unprocessed messages of an inbox without opening a session: nothing is marked as delivered. The lead, the
     * operator and observers may look at everybody's, others at their own.
     * PERMISSION_DENIED: NOT_PERMITTED (the operator and observers have no inbox of their own), LEAD_ONLY.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME. NOT_FOUND: AGENT_NOT_FOUND, TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListInboxResponse> listInbox(
        io.teamwire.v1.ListInboxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListInboxMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SEND = 0;
  private static final int METHODID_STREAM = 1;
  private static final int METHODID_ACK = 2;
  private static final int METHODID_GET_MESSAGE = 3;
  private static final int METHODID_LIST_INBOX = 4;

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
        case METHODID_SEND:
          serviceImpl.send((io.teamwire.v1.SendRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.SendResponse>) responseObserver);
          break;
        case METHODID_STREAM:
          serviceImpl.stream((io.teamwire.v1.StreamRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.StreamResponse>) responseObserver);
          break;
        case METHODID_ACK:
          serviceImpl.ack((io.teamwire.v1.AckRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.AckResponse>) responseObserver);
          break;
        case METHODID_GET_MESSAGE:
          serviceImpl.getMessage((io.teamwire.v1.GetMessageRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.GetMessageResponse>) responseObserver);
          break;
        case METHODID_LIST_INBOX:
          serviceImpl.listInbox((io.teamwire.v1.ListInboxRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListInboxResponse>) responseObserver);
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
          getSendMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.SendRequest,
              io.teamwire.v1.SendResponse>(
                service, METHODID_SEND)))
        .addMethod(
          getStreamMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.teamwire.v1.StreamRequest,
              io.teamwire.v1.StreamResponse>(
                service, METHODID_STREAM)))
        .addMethod(
          getAckMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.AckRequest,
              io.teamwire.v1.AckResponse>(
                service, METHODID_ACK)))
        .addMethod(
          getGetMessageMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.GetMessageRequest,
              io.teamwire.v1.GetMessageResponse>(
                service, METHODID_GET_MESSAGE)))
        .addMethod(
          getListInboxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListInboxRequest,
              io.teamwire.v1.ListInboxResponse>(
                service, METHODID_LIST_INBOX)))
        .build();
  }

  private static abstract class MessageServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    MessageServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.teamwire.v1.MessageOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("MessageService");
    }
  }

  private static final class MessageServiceFileDescriptorSupplier
      extends MessageServiceBaseDescriptorSupplier {
    MessageServiceFileDescriptorSupplier() {}
  }

  private static final class MessageServiceMethodDescriptorSupplier
      extends MessageServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    MessageServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (MessageServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new MessageServiceFileDescriptorSupplier())
              .addMethod(getSendMethod())
              .addMethod(getStreamMethod())
              .addMethod(getAckMethod())
              .addMethod(getGetMessageMethod())
              .addMethod(getListInboxMethod())
              .build();
        }
      }
    }
    return result;
  }
}
