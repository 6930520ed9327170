package io.teamwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
 * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
 * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
 * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
 * task at once, exactly one gets it.
 * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
 * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TaskServiceGrpc {

  private TaskServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "teamwire.v1.TaskService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.CreateTaskRequest,
      io.teamwire.v1.CreateTaskResponse> getCreateTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateTask",
      requestType = io.teamwire.v1.CreateTaskRequest.class,
      responseType = io.teamwire.v1.CreateTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.CreateTaskRequest,
      io.teamwire.v1.CreateTaskResponse> getCreateTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.CreateTaskRequest, io.teamwire.v1.CreateTaskResponse> getCreateTaskMethod;
    if ((getCreateTaskMethod = TaskServiceGrpc.getCreateTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getCreateTaskMethod = TaskServiceGrpc.getCreateTaskMethod) == null) {
          TaskServiceGrpc.getCreateTaskMethod = getCreateTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.CreateTaskRequest, io.teamwire.v1.CreateTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("CreateTask"))
              .build();
        }
      }
    }
    return getCreateTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.GetTaskRequest,
      io.teamwire.v1.GetTaskResponse> getGetTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTask",
      requestType = io.teamwire.v1.GetTaskRequest.class,
      responseType = io.teamwire.v1.GetTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.GetTaskRequest,
      io.teamwire.v1.GetTaskResponse> getGetTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.GetTaskRequest, io.teamwire.v1.GetTaskResponse> getGetTaskMethod;
    if ((getGetTaskMethod = TaskServiceGrpc.getGetTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getGetTaskMethod = TaskServiceGrpc.getGetTaskMethod) == null) {
          TaskServiceGrpc.getGetTaskMethod = getGetTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.GetTaskRequest, io.teamwire.v1.GetTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTask"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("GetTask"))
              .build();
        }
      }
    }
    return getGetTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListTasksRequest,
      io.teamwire.v1.ListTasksResponse> getListTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTasks",
      requestType = io.teamwire.v1.ListTasksRequest.class,
      responseType = io.teamwire.v1.ListTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListTasksRequest,
      io.teamwire.v1.ListTasksResponse> getListTasksMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListTasksRequest, io.teamwire.v1.ListTasksResponse> getListTasksMethod;
    if ((getListTasksMethod = TaskServiceGrpc.getListTasksMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getListTasksMethod = TaskServiceGrpc.getListTasksMethod) == null) {
          TaskServiceGrpc.getListTasksMethod = getListTasksMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListTasksRequest, io.teamwire.v1.ListTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTasks"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ListTasks"))
              .build();
        }
      }
    }
    return getListTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.FollowTasksRequest,
      io.teamwire.v1.FollowTasksResponse> getFollowTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FollowTasks",
      requestType = io.teamwire.v1.FollowTasksRequest.class,
      responseType = io.teamwire.v1.FollowTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.FollowTasksRequest,
      io.teamwire.v1.FollowTasksResponse> getFollowTasksMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.FollowTasksRequest, io.teamwire.v1.FollowTasksResponse> getFollowTasksMethod;
    if ((getFollowTasksMethod = TaskServiceGrpc.getFollowTasksMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getFollowTasksMethod = TaskServiceGrpc.getFollowTasksMethod) == null) {
          TaskServiceGrpc.getFollowTasksMethod = getFollowTasksMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.FollowTasksRequest, io.teamwire.v1.FollowTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FollowTasks"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.FollowTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.FollowTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("FollowTasks"))
              .build();
        }
      }
    }
    return getFollowTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.UpdateTaskRequest,
      io.teamwire.v1.UpdateTaskResponse> getUpdateTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateTask",
      requestType = io.teamwire.v1.UpdateTaskRequest.class,
      responseType = io.teamwire.v1.UpdateTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.UpdateTaskRequest,
      io.teamwire.v1.UpdateTaskResponse> getUpdateTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.UpdateTaskRequest, io.teamwire.v1.UpdateTaskResponse> getUpdateTaskMethod;
    if ((getUpdateTaskMethod = TaskServiceGrpc.getUpdateTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getUpdateTaskMethod = TaskServiceGrpc.getUpdateTaskMethod) == null) {
          TaskServiceGrpc.getUpdateTaskMethod = getUpdateTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.UpdateTaskRequest, io.teamwire.v1.UpdateTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.UpdateTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.UpdateTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("UpdateTask"))
              .build();
        }
      }
    }
    return getUpdateTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ClaimTaskRequest,
      io.teamwire.v1.ClaimTaskResponse> getClaimTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ClaimTask",
      requestType = io.teamwire.v1.ClaimTaskRequest.class,
      responseType = io.teamwire.v1.ClaimTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ClaimTaskRequest,
      io.teamwire.v1.ClaimTaskResponse> getClaimTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ClaimTaskRequest, io.teamwire.v1.ClaimTaskResponse> getClaimTaskMethod;
    if ((getClaimTaskMethod = TaskServiceGrpc.getClaimTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getClaimTaskMethod = TaskServiceGrpc.getClaimTaskMethod) == null) {
          TaskServiceGrpc.getClaimTaskMethod = getClaimTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ClaimTaskRequest, io.teamwire.v1.ClaimTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ClaimTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ClaimTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ClaimTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ClaimTask"))
              .build();
        }
      }
    }
    return getClaimTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ClaimNextTaskRequest,
      io.teamwire.v1.ClaimNextTaskResponse> getClaimNextTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ClaimNextTask",
      requestType = io.teamwire.v1.ClaimNextTaskRequest.class,
      responseType = io.teamwire.v1.ClaimNextTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ClaimNextTaskRequest,
      io.teamwire.v1.ClaimNextTaskResponse> getClaimNextTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ClaimNextTaskRequest, io.teamwire.v1.ClaimNextTaskResponse> getClaimNextTaskMethod;
    if ((getClaimNextTaskMethod = TaskServiceGrpc.getClaimNextTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getClaimNextTaskMethod = TaskServiceGrpc.getClaimNextTaskMethod) == null) {
          TaskServiceGrpc.getClaimNextTaskMethod = getClaimNextTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ClaimNextTaskRequest, io.teamwire.v1.ClaimNextTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ClaimNextTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ClaimNextTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ClaimNextTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ClaimNextTask"))
              .build();
        }
      }
    }
    return getClaimNextTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.CompleteTaskRequest,
      io.teamwire.v1.CompleteTaskResponse> getCompleteTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompleteTask",
      requestType = io.teamwire.v1.CompleteTaskRequest.class,
      responseType = io.teamwire.v1.CompleteTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.CompleteTaskRequest,
      io.teamwire.v1.CompleteTaskResponse> getCompleteTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.CompleteTaskRequest, io.teamwire.v1.CompleteTaskResponse> getCompleteTaskMethod;
    if ((getCompleteTaskMethod = TaskServiceGrpc.getCompleteTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getCompleteTaskMethod = TaskServiceGrpc.getCompleteTaskMethod) == null) {
          TaskServiceGrpc.getCompleteTaskMethod = getCompleteTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.CompleteTaskRequest, io.teamwire.v1.CompleteTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompleteTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CompleteTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CompleteTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("CompleteTask"))
              .build();
        }
      }
    }
    return getCompleteTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ReleaseTaskRequest,
      io.teamwire.v1.ReleaseTaskResponse> getReleaseTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReleaseTask",
      requestType = io.teamwire.v1.ReleaseTaskRequest.class,
      responseType = io.teamwire.v1.ReleaseTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ReleaseTaskRequest,
      io.teamwire.v1.ReleaseTaskResponse> getReleaseTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ReleaseTaskRequest, io.teamwire.v1.ReleaseTaskResponse> getReleaseTaskMethod;
    if ((getReleaseTaskMethod = TaskServiceGrpc.getReleaseTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getReleaseTaskMethod = TaskServiceGrpc.getReleaseTaskMethod) == null) {
          TaskServiceGrpc.getReleaseTaskMethod = getReleaseTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ReleaseTaskRequest, io.teamwire.v1.ReleaseTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReleaseTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ReleaseTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ReleaseTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ReleaseTask"))
              .build();
        }
      }
    }
    return getReleaseTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTaskRequest,
      io.teamwire.v1.DeleteTaskResponse> getDeleteTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteTask",
      requestType = io.teamwire.v1.DeleteTaskRequest.class,
      responseType = io.teamwire.v1.DeleteTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTaskRequest,
      io.teamwire.v1.DeleteTaskResponse> getDeleteTaskMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTaskRequest, io.teamwire.v1.DeleteTaskResponse> getDeleteTaskMethod;
    if ((getDeleteTaskMethod = TaskServiceGrpc.getDeleteTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getDeleteTaskMethod = TaskServiceGrpc.getDeleteTaskMethod) == null) {
          TaskServiceGrpc.getDeleteTaskMethod = getDeleteTaskMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.DeleteTaskRequest, io.teamwire.v1.DeleteTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.DeleteTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.DeleteTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("DeleteTask"))
              .build();
        }
      }
    }
    return getDeleteTaskMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TaskServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceStub>() {
        @java.lang.Override
        public TaskServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceStub(channel, callOptions);
        }
      };
    return TaskServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TaskServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingV2Stub>() {
        @java.lang.Override
        public TaskServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TaskServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TaskServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingStub>() {
        @java.lang.Override
        public TaskServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceBlockingStub(channel, callOptions);
        }
      };
    return TaskServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TaskServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceFutureStub>() {
        @java.lang.Override
        public TaskServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceFutureStub(channel, callOptions);
        }
      };
    return TaskServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Adds a task. Open to every member and the operator.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner),
     * INVALID_IDEMPOTENCY_KEY. NOT_FOUND: TASK_NOT_FOUND (in blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION:
     * AGENT_EXITED (owner). ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (open tasks,
     * blocked_by).
     * </pre>
     */
    default void createTask(io.teamwire.v1.CreateTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns one task, also a deleted one for as long as it is remembered.
     * NOT_FOUND: TASK_NOT_FOUND.
     * </pre>
     */
    default void getTask(io.teamwire.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists tasks in the order of their ids.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME, TEAM_MISMATCH. NOT_FOUND: AGENT_NOT_FOUND.
     * </pre>
     */
    default void listTasks(io.teamwire.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams every task that is not deleted, then every task that changes, as it stands then; a change of Task.blocks
     * alone is not told. Ends with an error when the team is deleted (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator
     * goes away (UNAVAILABLE: DRAINING): follow again.
     * </pre>
     */
    default void followTasks(io.teamwire.v1.FollowTasksRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.FollowTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFollowTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Changes a task that is neither completed nor deleted. A task in progress is changed by its owner, the lead or the
     * operator only; its owner by the lead or the operator only, which ends the claim. A pending task that is assigned is
     * assigned anew by its owner, the lead or the operator only.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner). NOT_FOUND:
     * TASK_NOT_FOUND (also in add_blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION: TASK_CLAIMED (also when
     * dependencies of a task in progress are to change), TASK_CLOSED, AGENT_EXITED (owner). ABORTED: TASK_CHANGED.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (add_blocked_by).
     * </pre>
     */
    default void updateTask(io.teamwire.v1.UpdateTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.UpdateTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Claims one task. Members only.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED (also when it is assigned to another member, and when
     * the caller itself has claimed it), TASK_BLOCKED, TASK_CLOSED, PLAN_REQUIRED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the
     * member holds too many claims). PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_IDEMPOTENCY_KEY.
     * ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED.
     * </pre>
     */
    default void claimTask(io.teamwire.v1.ClaimTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Claims the oldest pending, unblocked task that is assigned to the caller; where there is none, the oldest that is
     * assigned to nobody. Members only. With `wait`, waits for one.
     * FAILED_PRECONDITION: PLAN_REQUIRED. INVALID_ARGUMENT: INVALID_FIELD (wait), INVALID_IDEMPOTENCY_KEY.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the member holds too many claims, and there is a task to take).
     * PERMISSION_DENIED: NOT_PERMITTED.
     * </pre>
     */
    default void claimNextTask(io.teamwire.v1.ClaimNextTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimNextTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimNextTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Completes a task, which unblocks those that wait for it. For its owner, with the claim's token; the lead and the
     * operator need none, and may complete what nobody has claimed, too. Completing twice with one token is fine; so is
     * completing twice without one, with the same result.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it), TASK_BLOCKED (the lead and the operator),
     * PLAN_REQUIRED. INVALID_ARGUMENT: CONTENT_TOO_LARGE.
     * </pre>
     */
    default void completeTask(io.teamwire.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Gives a claimed task back to the board. For its owner, with the claim's token; the lead and the operator need none.
     * Giving back twice with one token is fine.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it). INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    default void releaseTask(io.teamwire.v1.ReleaseTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ReleaseTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a task, also a completed one; those that wait for it no longer do. A task in progress is deleted by its
     * owner, the lead or the operator only. Deleting twice is fine. A deleted task is remembered for 24 hours.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED.
     * </pre>
     */
    default void deleteTask(io.teamwire.v1.DeleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteTaskMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TaskService.
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public static abstract class TaskServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TaskServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TaskService.
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public static final class TaskServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TaskServiceStub> {
    private TaskServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Adds a task. Open to every member and the operator.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner),
     * INVALID_IDEMPOTENCY_KEY. NOT_FOUND: TASK_NOT_FOUND (in blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION:
     * AGENT_EXITED (owner). ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (open tasks,
     * blocked_by).
     * </pre>
     */
    public void createTask(io.teamwire.v1.CreateTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns one task, also a deleted one for as long as it is remembered.
     * NOT_FOUND: TASK_NOT_FOUND.
     * </pre>
     */
    public void getTask(io.teamwire.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists tasks in the order of their ids.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME, TEAM_MISMATCH. NOT_FOUND: AGENT_NOT_FOUND.
     * </pre>
     */
    public void listTasks(io.teamwire.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams every task that is not deleted, then every task that changes, as it stands then; a change of Task.blocks
     * alone is not told. Ends with an error when the team is deleted (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator
     * goes away (UNAVAILABLE: DRAINING): follow again.
     * </pre>
     */
    public void followTasks(io.teamwire.v1.FollowTasksRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.FollowTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getFollowTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Changes a task that is neither completed nor deleted. A task in progress is changed by its owner, the lead or the
     * operator only; its owner by the lead or the operator only, which ends the claim. A pending task that is assigned is
     * assigned anew by its owner, the lead or the operator only.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner). NOT_FOUND:
     * TASK_NOT_FOUND (also in add_blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION: TASK_CLAIMED (also when
     * dependencies of a task in progress are to change), TASK_CLOSED, AGENT_EXITED (owner). ABORTED: TASK_CHANGED.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (add_blocked_by).
     * </pre>
     */
    public void updateTask(io.teamwire.v1.UpdateTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.UpdateTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Claims one task. Members only.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED (also when it is assigned to another member, and when
     * the caller itself has claimed it), TASK_BLOCKED, TASK_CLOSED, PLAN_REQUIRED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the
     * member holds too many claims). PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_IDEMPOTENCY_KEY.
     * ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED.
     * </pre>
     */
    public void claimTask(io.teamwire.v1.ClaimTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Claims the oldest pending, unblocked task that is assigned to the caller; where there is none, the oldest that is
     * assigned to nobody. Members only. With `wait`, waits for one.
     * FAILED_PRECONDITION: PLAN_REQUIRED. INVALID_ARGUMENT: INVALID_FIELD (wait), INVALID_IDEMPOTENCY_KEY.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the member holds too many claims, and there is a task to take).
     * PERMISSION_DENIED: NOT_PERMITTED.
     * </pre>
     */
    public void claimNextTask(io.teamwire.v1.ClaimNextTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimNextTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimNextTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Completes a task, which unblocks those that wait for it. For its owner, with the claim's token; the lead and the
     * operator need none, and may complete what nobody has claimed, too. Completing twice with one token is fine; so is
     * completing twice without one, with the same result.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it), TASK_BLOCKED (the lead and the operator),
     * PLAN_REQUIRED. INVALID_ARGUMENT: CONTENT_TOO_LARGE.
     * </pre>
     */
    public void completeTask(io.teamwire.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Gives a claimed task back to the board. For its owner, with the claim's token; the lead and the operator need none.
     * Giving back twice with one token is fine.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it). INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public void releaseTask(io.teamwire.v1.ReleaseTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ReleaseTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a task, also a completed one; those that wait for it no longer do. A task in progress is deleted by its
     * owner, the lead or the operator only. Deleting twice is fine. A deleted task is remembered for 24 hours.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED.
     * </pre>
     */
    public void deleteTask(io.teamwire.v1.DeleteTaskRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteTaskMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TaskService.
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public static final class TaskServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TaskServiceBlockingV2Stub> {
    private TaskServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Adds a task. Open to every member and the operator.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner),
     * INVALID_IDEMPOTENCY_KEY. NOT_FOUND: TASK_NOT_FOUND (in blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION:
     * AGENT_EXITED (owner). ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (open tasks,
     * blocked_by).
     * </pre>
     */
    public io.teamwire.v1.CreateTaskResponse createTask(io.teamwire.v1.CreateTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one task, also a deleted one for as long as it is remembered.
     * NOT_FOUND: TASK_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.GetTaskResponse getTask(io.teamwire.v1.GetTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists tasks in the order of their ids.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME, TEAM_MISMATCH. NOT_FOUND: AGENT_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListTasksResponse listTasks(io.teamwire.v1.ListTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams every task that is not deleted, then every task that changes, as it stands then; a change of Task.blocks
     * alone is not told. Ends with an error when the team is deleted (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator
     * goes away (UNAVAILABLE: DRAINING): follow again.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.teamwire.v1.FollowTasksResponse>
        followTasks(io.teamwire.v1.FollowTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getFollowTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes a task that is neither completed nor deleted. A task in progress is changed by its owner, the lead or the
     * operator only; its owner by the lead or the operator only, which ends the claim. A pending task that is assigned is
     * assigned anew by its owner, the lead or the operator only.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner). NOT_FOUND:
     * TASK_NOT_FOUND (also in add_blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION: TASK_CLAIMED (also when
     * dependencies of a task in progress are to change), TASK_CLOSED, AGENT_EXITED (owner). ABORTED: TASK_CHANGED.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (add_blocked_by).
     * </pre>
     */
    public io.teamwire.v1.UpdateTaskResponse updateTask(io.teamwire.v1.UpdateTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Claims one task. Members only.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED (also when it is assigned to another member, and when
     * the caller itself has claimed it), TASK_BLOCKED, TASK_CLOSED, PLAN_REQUIRED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the
     * member holds too many claims). PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_IDEMPOTENCY_KEY.
     * ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED.
     * </pre>
     */
    public io.teamwire.v1.ClaimTaskResponse claimTask(io.teamwire.v1.ClaimTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getClaimTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Claims the oldest pending, unblocked task that is assigned to the caller; where there is none, the oldest that is
     * assigned to nobody. Members only. With `wait`, waits for one.
     * FAILED_PRECONDITION: PLAN_REQUIRED. INVALID_ARGUMENT: INVALID_FIELD (wait), INVALID_IDEMPOTENCY_KEY.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the member holds too many claims, and there is a task to take).
     * PERMISSION_DENIED: NOT_PERMITTED.
     * </pre>
     */
    public io.teamwire.v1.ClaimNextTaskResponse claimNextTask(io.teamwire.v1.ClaimNextTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getClaimNextTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Completes a task, which unblocks those that wait for it. For its owner, with the claim's token; the lead and the
     * operator need none, and may complete what nobody has claimed, too. Completing twice with one token is fine; so is
     * completing twice without one, with the same result.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it), TASK_BLOCKED (the lead and the operator),
     * PLAN_REQUIRED. INVALID_ARGUMENT: CONTENT_TOO_LARGE.
     * </pre>
     */
    public io.teamwire.v1.CompleteTaskResponse completeTask(io.teamwire.v1.CompleteTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Gives a claimed task back to the board. For its owner, with the claim's token; the lead and the operator need none.
     * Giving back twice with one token is fine.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it). INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ReleaseTaskResponse releaseTask(io.teamwire.v1.ReleaseTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReleaseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a task, also a completed one; those that wait for it no longer do. A task in progress is deleted by its
     * owner, the lead or the operator only. Deleting twice is fine. A deleted task is remembered for 24 hours.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED.
     * </pre>
     */
    public io.teamwire.v1.DeleteTaskResponse deleteTask(io.teamwire.v1.DeleteTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TaskService.
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public static final class TaskServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TaskServiceBlockingStub> {
    private TaskServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Adds a task. Open to every member and the operator.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner),
     * INVALID_IDEMPOTENCY_KEY. NOT_FOUND: TASK_NOT_FOUND (in blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION:
     * AGENT_EXITED (owner). ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (open tasks,
     * blocked_by).
     * </pre>
     */
    public io.teamwire.v1.CreateTaskResponse createTask(io.teamwire.v1.CreateTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one task, also a deleted one for as long as it is remembered.
     * NOT_FOUND: TASK_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.GetTaskResponse getTask(io.teamwire.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists tasks in the order of their ids.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME, TEAM_MISMATCH. NOT_FOUND: AGENT_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListTasksResponse listTasks(io.teamwire.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams every task that is not deleted, then every task that changes, as it stands then; a change of Task.blocks
     * alone is not told. Ends with an error when the team is deleted (NOT_FOUND: TEAM_NOT_FOUND) and when the coordinator
     * goes away (UNAVAILABLE: DRAINING): follow again.
     * </pre>
     */
    public java.util.Iterator<io.teamwire.v1.FollowTasksResponse> followTasks(
        io.teamwire.v1.FollowTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getFollowTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes a task that is neither completed nor deleted. A task in progress is changed by its owner, the lead or the
     * operator only; its owner by the lead or the operator only, which ends the claim. A pending task that is assigned is
     * assigned anew by its owner, the lead or the operator only.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner). NOT_FOUND:
     * TASK_NOT_FOUND (also in add_blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION: TASK_CLAIMED (also when
     * dependencies of a task in progress are to change), TASK_CLOSED, AGENT_EXITED (owner). ABORTED: TASK_CHANGED.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (add_blocked_by).
     * </pre>
     */
    public io.teamwire.v1.UpdateTaskResponse updateTask(io.teamwire.v1.UpdateTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Claims one task. Members only.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED (also when it is assigned to another member, and when
     * the caller itself has claimed it), TASK_BLOCKED, TASK_CLOSED, PLAN_REQUIRED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the
     * member holds too many claims). PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_IDEMPOTENCY_KEY.
     * ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED.
     * </pre>
     */
    public io.teamwire.v1.ClaimTaskResponse claimTask(io.teamwire.v1.ClaimTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Claims the oldest pending, unblocked task that is assigned to the caller; where there is none, the oldest that is
     * assigned to nobody. Members only. With `wait`, waits for one.
     * FAILED_PRECONDITION: PLAN_REQUIRED. INVALID_ARGUMENT: INVALID_FIELD (wait), INVALID_IDEMPOTENCY_KEY.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the member holds too many claims, and there is a task to take).
     * PERMISSION_DENIED: NOT_PERMITTED.
     * </pre>
     */
    public io.teamwire.v1.ClaimNextTaskResponse claimNextTask(io.teamwire.v1.ClaimNextTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimNextTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Completes a task, which unblocks those that wait for it. For its owner, with the claim's token; the lead and the
     * operator need none, and may complete what nobody has claimed, too. Completing twice with one token is fine; so is
     * completing twice without one, with the same result.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it), TASK_BLOCKED (the lead and the operator),
     * PLAN_REQUIRED. INVALID_ARGUMENT: CONTENT_TOO_LARGE.
     * </pre>
     */
    public io.teamwire.v1.CompleteTaskResponse completeTask(io.teamwire.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Gives a claimed task back to the board. For its owner, with the claim's token; the lead and the operator need none.
     * Giving back twice with one token is fine.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it). INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ReleaseTaskResponse releaseTask(io.teamwire.v1.ReleaseTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a task, also a completed one; those that wait for it no longer do. A task in progress is deleted by its
     * owner, the lead or the operator only. Deleting twice is fine. A deleted task is remembered for 24 hours.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED.
     * </pre>
     */
    public io.teamwire.v1.DeleteTaskResponse deleteTask(io.teamwire.v1.DeleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TaskService.
   * <pre>
   * Keeps the tasks of a team. What is said of credentials and errors at MessageService holds here too.
   * A task is pending until a member claims it, then in progress until that member completes it or gives it back. A
   * claim is good for as long as its owner lives: when the owner is lost, exits, is stopped by force or begins a new life,
   * its claims return to the board, and their tokens are refused from then on. Of any number of members that claim one
   * task at once, exactly one gets it.
   * Every member, the operator and observers see every task. Observers change nothing: NOT_PERMITTED (PERMISSION_DENIED).
   * Any call may fail with TEAM_NOT_FOUND (NOT_FOUND) and SESSION_SUPERSEDED (ABORTED), too.
   * </pre>
   */
  public static final class TaskServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TaskServiceFutureStub> {
    private TaskServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Adds a task. Open to every member and the operator.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner),
     * INVALID_IDEMPOTENCY_KEY. NOT_FOUND: TASK_NOT_FOUND (in blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION:
     * AGENT_EXITED (owner). ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (open tasks,
     * blocked_by).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.CreateTaskResponse> createTask(
        io.teamwire.v1.CreateTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns one task, also a deleted one for as long as it is remembered.
     * NOT_FOUND: TASK_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.GetTaskResponse> getTask(
        io.teamwire.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists tasks in the order of their ids.
     * INVALID_ARGUMENT: INVALID_FIELD, INVALID_NAME, TEAM_MISMATCH. NOT_FOUND: AGENT_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListTasksResponse> listTasks(
        io.teamwire.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Changes a task that is neither completed nor deleted. A task in progress is changed by its owner, the lead or the
     * operator only; its owner by the lead or the operator only, which ends the claim. A pending task that is assigned is
     * assigned anew by its owner, the lead or the operator only.
     * INVALID_ARGUMENT: INVALID_FIELD, CONTENT_TOO_LARGE, TASK_CYCLE, INVALID_NAME, TEAM_MISMATCH (owner). NOT_FOUND:
     * TASK_NOT_FOUND (also in add_blocked_by), AGENT_NOT_FOUND (owner). FAILED_PRECONDITION: TASK_CLAIMED (also when
     * dependencies of a task in progress are to change), TASK_CLOSED, AGENT_EXITED (owner). ABORTED: TASK_CHANGED.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (add_blocked_by).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.UpdateTaskResponse> updateTask(
        io.teamwire.v1.UpdateTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Claims one task. Members only.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED (also when it is assigned to another member, and when
     * the caller itself has claimed it), TASK_BLOCKED, TASK_CLOSED, PLAN_REQUIRED. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the
     * member holds too many claims). PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_IDEMPOTENCY_KEY.
     * ALREADY_EXISTS: IDEMPOTENCY_KEY_REUSED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ClaimTaskResponse> claimTask(
        io.teamwire.v1.ClaimTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Claims the oldest pending, unblocked task that is assigned to the caller; where there is none, the oldest that is
     * assigned to nobody. Members only. With `wait`, waits for one.
     * FAILED_PRECONDITION: PLAN_REQUIRED. INVALID_ARGUMENT: INVALID_FIELD (wait), INVALID_IDEMPOTENCY_KEY.
     * RESOURCE_EXHAUSTED: QUOTA_EXCEEDED (the member holds too many claims, and there is a task to take).
     * PERMISSION_DENIED: NOT_PERMITTED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ClaimNextTaskResponse> claimNextTask(
        io.teamwire.v1.ClaimNextTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimNextTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Completes a task, which unblocks those that wait for it. For its owner, with the claim's token; the lead and the
     * operator need none, and may complete what nobody has claimed, too. Completing twice with one token is fine; so is
     * completing twice without one, with the same result.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it), TASK_BLOCKED (the lead and the operator),
     * PLAN_REQUIRED. INVALID_ARGUMENT: CONTENT_TOO_LARGE.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.CompleteTaskResponse> completeTask(
        io.teamwire.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Gives a claimed task back to the board. For its owner, with the claim's token; the lead and the operator need none.
     * Giving back twice with one token is fine.
     * NOT_FOUND: TASK_NOT_FOUND. ABORTED: STALE_CLAIM (also when nobody has claimed it). FAILED_PRECONDITION: TASK_CLOSED,
     * TASK_CLAIMED (no token was given, and another member has claimed it). INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ReleaseTaskResponse> releaseTask(
        io.teamwire.v1.ReleaseTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a task, also a completed one; those that wait for it no longer do. A task in progress is deleted by its
     * owner, the lead or the operator only. Deleting twice is fine. A deleted task is remembered for 24 hours.
     * NOT_FOUND: TASK_NOT_FOUND. FAILED_PRECONDITION: TASK_CLAIMED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.DeleteTaskResponse> deleteTask(
        io.teamwire.v1.DeleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteTaskMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_TASK = 0;
  private static final int METHODID_GET_TASK = 1;
  private static final int METHODID_LIST_TASKS = 2;
  private static final int METHODID_FOLLOW_TASKS = 3;
  private static final int METHODID_UPDATE_TASK = 4;
  private static final int METHODID_CLAIM_TASK = 5;
  private static final int METHODID_CLAIM_NEXT_TASK = 6;
  private static final int METHODID_COMPLETE_TASK = 7;
  private static final int METHODID_RELEASE_TASK = 8;
  private static final int METHODID_DELETE_TASK = 9;

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
        case METHODID_CREATE_TASK:
          serviceImpl.createTask((io.teamwire.v1.CreateTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTaskResponse>) responseObserver);
          break;
        case METHODID_GET_TASK:
          serviceImpl.getTask((io.teamwire.v1.GetTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.GetTaskResponse>) responseObserver);
          break;
        case METHODID_LIST_TASKS:
          serviceImpl.listTasks((io.teamwire.v1.ListTasksRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListTasksResponse>) responseObserver);
          break;
        case METHODID_FOLLOW_TASKS:
          serviceImpl.followTasks((io.teamwire.v1.FollowTasksRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.FollowTasksResponse>) responseObserver);
          break;
        case METHODID_UPDATE_TASK:
          serviceImpl.updateTask((io.teamwire.v1.UpdateTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.UpdateTaskResponse>) responseObserver);
          break;
        case METHODID_CLAIM_TASK:
          serviceImpl.claimTask((io.teamwire.v1.ClaimTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimTaskResponse>) responseObserver);
          break;
        case METHODID_CLAIM_NEXT_TASK:
          serviceImpl.claimNextTask((io.teamwire.v1.ClaimNextTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ClaimNextTaskResponse>) responseObserver);
          break;
        case METHODID_COMPLETE_TASK:
          serviceImpl.completeTask((io.teamwire.v1.CompleteTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.CompleteTaskResponse>) responseObserver);
          break;
        case METHODID_RELEASE_TASK:
          serviceImpl.releaseTask((io.teamwire.v1.ReleaseTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ReleaseTaskResponse>) responseObserver);
          break;
        case METHODID_DELETE_TASK:
          serviceImpl.deleteTask((io.teamwire.v1.DeleteTaskRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTaskResponse>) responseObserver);
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
          getCreateTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.CreateTaskRequest,
              io.teamwire.v1.CreateTaskResponse>(
                service, METHODID_CREATE_TASK)))
        .addMethod(
          getGetTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.GetTaskRequest,
              io.teamwire.v1.GetTaskResponse>(
                service, METHODID_GET_TASK)))
        .addMethod(
          getListTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListTasksRequest,
              io.teamwire.v1.ListTasksResponse>(
                service, METHODID_LIST_TASKS)))
        .addMethod(
          getFollowTasksMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.teamwire.v1.FollowTasksRequest,
              io.teamwire.v1.FollowTasksResponse>(
                service, METHODID_FOLLOW_TASKS)))
        .addMethod(
          getUpdateTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.UpdateTaskRequest,
              io.teamwire.v1.UpdateTaskResponse>(
                service, METHODID_UPDATE_TASK)))
        .addMethod(
          getClaimTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ClaimTaskRequest,
              io.teamwire.v1.ClaimTaskResponse>(
                service, METHODID_CLAIM_TASK)))
        .addMethod(
          getClaimNextTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ClaimNextTaskRequest,
              io.teamwire.v1.ClaimNextTaskResponse>(
                service, METHODID_CLAIM_NEXT_TASK)))
        .addMethod(
          getCompleteTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.CompleteTaskRequest,
              io.teamwire.v1.CompleteTaskResponse>(
                service, METHODID_COMPLETE_TASK)))
        .addMethod(
          getReleaseTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ReleaseTaskRequest,
              io.teamwire.v1.ReleaseTaskResponse>(
                service, METHODID_RELEASE_TASK)))
        .addMethod(
          getDeleteTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.DeleteTaskRequest,
              io.teamwire.v1.DeleteTaskResponse>(
                service, METHODID_DELETE_TASK)))
        .build();
  }

  private static abstract class TaskServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TaskServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.teamwire.v1.TaskOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TaskService");
    }
  }

  private static final class TaskServiceFileDescriptorSupplier
      extends TaskServiceBaseDescriptorSupplier {
    TaskServiceFileDescriptorSupplier() {}
  }

  private static final class TaskServiceMethodDescriptorSupplier
      extends TaskServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TaskServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TaskServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TaskServiceFileDescriptorSupplier())
              .addMethod(getCreateTaskMethod())
              .addMethod(getGetTaskMethod())
              .addMethod(getListTasksMethod())
              .addMethod(getFollowTasksMethod())
              .addMethod(getUpdateTaskMethod())
              .addMethod(getClaimTaskMethod())
              .addMethod(getClaimNextTaskMethod())
              .addMethod(getCompleteTaskMethod())
              .addMethod(getReleaseTaskMethod())
              .addMethod(getDeleteTaskMethod())
              .build();
        }
      }
    }
    return result;
  }
}
