package io.teamwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
 * here too.
 * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
 * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
 * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TeamServiceGrpc {

  private TeamServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "teamwire.v1.TeamService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.CreateTeamRequest,
      io.teamwire.v1.CreateTeamResponse> getCreateTeamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateTeam",
      requestType = io.teamwire.v1.CreateTeamRequest.class,
      responseType = io.teamwire.v1.CreateTeamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.CreateTeamRequest,
      io.teamwire.v1.CreateTeamResponse> getCreateTeamMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.CreateTeamRequest, io.teamwire.v1.CreateTeamResponse> getCreateTeamMethod;
    if ((getCreateTeamMethod = TeamServiceGrpc.getCreateTeamMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getCreateTeamMethod = TeamServiceGrpc.getCreateTeamMethod) == null) {
          TeamServiceGrpc.getCreateTeamMethod = getCreateTeamMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.CreateTeamRequest, io.teamwire.v1.CreateTeamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateTeam"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateTeamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateTeamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("CreateTeam"))
              .build();
        }
      }
    }
    return getCreateTeamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.GetTeamRequest,
      io.teamwire.v1.GetTeamResponse> getGetTeamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTeam",
      requestType = io.teamwire.v1.GetTeamRequest.class,
      responseType = io.teamwire.v1.GetTeamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.GetTeamRequest,
      io.teamwire.v1.GetTeamResponse> getGetTeamMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.GetTeamRequest, io.teamwire.v1.GetTeamResponse> getGetTeamMethod;
    if ((getGetTeamMethod = TeamServiceGrpc.getGetTeamMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getGetTeamMethod = TeamServiceGrpc.getGetTeamMethod) == null) {
          TeamServiceGrpc.getGetTeamMethod = getGetTeamMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.GetTeamRequest, io.teamwire.v1.GetTeamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTeam"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetTeamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.GetTeamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("GetTeam"))
              .build();
        }
      }
    }
    return getGetTeamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListTeamsRequest,
      io.teamwire.v1.ListTeamsResponse> getListTeamsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTeams",
      requestType = io.teamwire.v1.ListTeamsRequest.class,
      responseType = io.teamwire.v1.ListTeamsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListTeamsRequest,
      io.teamwire.v1.ListTeamsResponse> getListTeamsMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListTeamsRequest, io.teamwire.v1.ListTeamsResponse> getListTeamsMethod;
    if ((getListTeamsMethod = TeamServiceGrpc.getListTeamsMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getListTeamsMethod = TeamServiceGrpc.getListTeamsMethod) == null) {
          TeamServiceGrpc.getListTeamsMethod = getListTeamsMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListTeamsRequest, io.teamwire.v1.ListTeamsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTeams"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListTeamsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListTeamsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("ListTeams"))
              .build();
        }
      }
    }
    return getListTeamsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTeamRequest,
      io.teamwire.v1.DeleteTeamResponse> getDeleteTeamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteTeam",
      requestType = io.teamwire.v1.DeleteTeamRequest.class,
      responseType = io.teamwire.v1.DeleteTeamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTeamRequest,
      io.teamwire.v1.DeleteTeamResponse> getDeleteTeamMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.DeleteTeamRequest, io.teamwire.v1.DeleteTeamResponse> getDeleteTeamMethod;
    if ((getDeleteTeamMethod = TeamServiceGrpc.getDeleteTeamMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getDeleteTeamMethod = TeamServiceGrpc.getDeleteTeamMethod) == null) {
          TeamServiceGrpc.getDeleteTeamMethod = getDeleteTeamMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.DeleteTeamRequest, io.teamwire.v1.DeleteTeamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteTeam"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.DeleteTeamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.DeleteTeamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("DeleteTeam"))
              .build();
        }
      }
    }
    return getDeleteTeamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.InviteRequest,
      io.teamwire.v1.InviteResponse> getInviteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Invite",
      requestType = io.teamwire.v1.InviteRequest.class,
      responseType = io.teamwire.v1.InviteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.InviteRequest,
      io.teamwire.v1.InviteResponse> getInviteMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.InviteRequest, io.teamwire.v1.InviteResponse> getInviteMethod;
    if ((getInviteMethod = TeamServiceGrpc.getInviteMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getInviteMethod = TeamServiceGrpc.getInviteMethod) == null) {
          TeamServiceGrpc.getInviteMethod = getInviteMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.InviteRequest, io.teamwire.v1.InviteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Invite"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.InviteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.InviteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("Invite"))
              .build();
        }
      }
    }
    return getInviteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.CreateObserverRequest,
      io.teamwire.v1.CreateObserverResponse> getCreateObserverMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateObserver",
      requestType = io.teamwire.v1.CreateObserverRequest.class,
      responseType = io.teamwire.v1.CreateObserverResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.CreateObserverRequest,
      io.teamwire.v1.CreateObserverResponse> getCreateObserverMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.CreateObserverRequest, io.teamwire.v1.CreateObserverResponse> getCreateObserverMethod;
    if ((getCreateObserverMethod = TeamServiceGrpc.getCreateObserverMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getCreateObserverMethod = TeamServiceGrpc.getCreateObserverMethod) == null) {
          TeamServiceGrpc.getCreateObserverMethod = getCreateObserverMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.CreateObserverRequest, io.teamwire.v1.CreateObserverResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateObserver"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateObserverRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.CreateObserverResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("CreateObserver"))
              .build();
        }
      }
    }
    return getCreateObserverMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.JoinRequest,
      io.teamwire.v1.JoinResponse> getJoinMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Join",
      requestType = io.teamwire.v1.JoinRequest.class,
      responseType = io.teamwire.v1.JoinResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.JoinRequest,
      io.teamwire.v1.JoinResponse> getJoinMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.JoinRequest, io.teamwire.v1.JoinResponse> getJoinMethod;
    if ((getJoinMethod = TeamServiceGrpc.getJoinMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getJoinMethod = TeamServiceGrpc.getJoinMethod) == null) {
          TeamServiceGrpc.getJoinMethod = getJoinMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.JoinRequest, io.teamwire.v1.JoinResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Join"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.JoinRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.JoinResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("Join"))
              .build();
        }
      }
    }
    return getJoinMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.LeaveRequest,
      io.teamwire.v1.LeaveResponse> getLeaveMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Leave",
      requestType = io.teamwire.v1.LeaveRequest.class,
      responseType = io.teamwire.v1.LeaveResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.LeaveRequest,
      io.teamwire.v1.LeaveResponse> getLeaveMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.LeaveRequest, io.teamwire.v1.LeaveResponse> getLeaveMethod;
    if ((getLeaveMethod = TeamServiceGrpc.getLeaveMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getLeaveMethod = TeamServiceGrpc.getLeaveMethod) == null) {
          TeamServiceGrpc.getLeaveMethod = getLeaveMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.LeaveRequest, io.teamwire.v1.LeaveResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Leave"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.LeaveRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.LeaveResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("Leave"))
              .build();
        }
      }
    }
    return getLeaveMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ListMembersRequest,
      io.teamwire.v1.ListMembersResponse> getListMembersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListMembers",
      requestType = io.teamwire.v1.ListMembersRequest.class,
      responseType = io.teamwire.v1.ListMembersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ListMembersRequest,
      io.teamwire.v1.ListMembersResponse> getListMembersMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ListMembersRequest, io.teamwire.v1.ListMembersResponse> getListMembersMethod;
    if ((getListMembersMethod = TeamServiceGrpc.getListMembersMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getListMembersMethod = TeamServiceGrpc.getListMembersMethod) == null) {
          TeamServiceGrpc.getListMembersMethod = getListMembersMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ListMembersRequest, io.teamwire.v1.ListMembersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListMembers"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListMembersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ListMembersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("ListMembers"))
              .build();
        }
      }
    }
    return getListMembersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.HeartbeatRequest,
      io.teamwire.v1.HeartbeatResponse> getHeartbeatMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Heartbeat",
      requestType = io.teamwire.v1.HeartbeatRequest.class,
      responseType = io.teamwire.v1.HeartbeatResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.HeartbeatRequest,
      io.teamwire.v1.HeartbeatResponse> getHeartbeatMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.HeartbeatRequest, io.teamwire.v1.HeartbeatResponse> getHeartbeatMethod;
    if ((getHeartbeatMethod = TeamServiceGrpc.getHeartbeatMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getHeartbeatMethod = TeamServiceGrpc.getHeartbeatMethod) == null) {
          TeamServiceGrpc.getHeartbeatMethod = getHeartbeatMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.HeartbeatRequest, io.teamwire.v1.HeartbeatResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Heartbeat"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.HeartbeatRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.HeartbeatResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("Heartbeat"))
              .build();
        }
      }
    }
    return getHeartbeatMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.ForceStopRequest,
      io.teamwire.v1.ForceStopResponse> getForceStopMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ForceStop",
      requestType = io.teamwire.v1.ForceStopRequest.class,
      responseType = io.teamwire.v1.ForceStopResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.ForceStopRequest,
      io.teamwire.v1.ForceStopResponse> getForceStopMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.ForceStopRequest, io.teamwire.v1.ForceStopResponse> getForceStopMethod;
    if ((getForceStopMethod = TeamServiceGrpc.getForceStopMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getForceStopMethod = TeamServiceGrpc.getForceStopMethod) == null) {
          TeamServiceGrpc.getForceStopMethod = getForceStopMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.ForceStopRequest, io.teamwire.v1.ForceStopResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ForceStop"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ForceStopRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.ForceStopResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("ForceStop"))
              .build();
        }
      }
    }
    return getForceStopMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.teamwire.v1.SetLeadRequest,
      io.teamwire.v1.SetLeadResponse> getSetLeadMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SetLead",
      requestType = io.teamwire.v1.SetLeadRequest.class,
      responseType = io.teamwire.v1.SetLeadResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.teamwire.v1.SetLeadRequest,
      io.teamwire.v1.SetLeadResponse> getSetLeadMethod() {
    io.grpc.MethodDescriptor<io.teamwire.v1.SetLeadRequest, io.teamwire.v1.SetLeadResponse> getSetLeadMethod;
    if ((getSetLeadMethod = TeamServiceGrpc.getSetLeadMethod) == null) {
      synchronized (TeamServiceGrpc.class) {
        if ((getSetLeadMethod = TeamServiceGrpc.getSetLeadMethod) == null) {
          TeamServiceGrpc.getSetLeadMethod = getSetLeadMethod =
              io.grpc.MethodDescriptor.<io.teamwire.v1.SetLeadRequest, io.teamwire.v1.SetLeadResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SetLead"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.SetLeadRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.teamwire.v1.SetLeadResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TeamServiceMethodDescriptorSupplier("SetLead"))
              .build();
        }
      }
    }
    return getSetLeadMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TeamServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TeamServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TeamServiceStub>() {
        @java.lang.Override
        public TeamServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TeamServiceStub(channel, callOptions);
        }
      };
    return TeamServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TeamServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TeamServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TeamServiceBlockingV2Stub>() {
        @java.lang.Override
        public TeamServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TeamServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TeamServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TeamServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TeamServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TeamServiceBlockingStub>() {
        @java.lang.Override
        public TeamServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TeamServiceBlockingStub(channel, callOptions);
        }
      };
    return TeamServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TeamServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TeamServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TeamServiceFutureStub>() {
        @java.lang.Override
        public TeamServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TeamServiceFutureStub(channel, callOptions);
        }
      };
    return TeamServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Creates a team. The caller, who holds the operator's credential, becomes its lead: the reply carries the lead's
     * own member credential.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. ALREADY_EXISTS: TEAM_EXISTS,
     * IDEMPOTENCY_KEY_REUSED. PERMISSION_DENIED: OPERATOR_ONLY.
     * </pre>
     */
    default void createTeam(io.teamwire.v1.CreateTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTeamResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateTeamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns one team.
     * NOT_FOUND: TEAM_NOT_FOUND, also when it is not the caller's to see.
     * </pre>
     */
    default void getTeam(io.teamwire.v1.GetTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetTeamResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTeamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the teams that the caller may see: all of them for the operator, one for anybody else.
     * INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    default void listTeams(io.teamwire.v1.ListTeamsRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListTeamsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTeamsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a team with everything that belongs to it. Lead and operator only. Refused while a member other than the
     * caller is live (joined, active, idle or stopping); the error names them, in its text and in the metadata of its
     * ErrorInfo, as NAME: STATE; of more than 12, these many, and how many more there are.
     * NOT_FOUND: TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY. FAILED_PRECONDITION: TEAM_HAS_ACTIVE_MEMBERS.
     * </pre>
     */
    default void deleteTeam(io.teamwire.v1.DeleteTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTeamResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteTeamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Mints a join token. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void invite(io.teamwire.v1.InviteRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.InviteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getInviteMethod(), responseObserver);
    }

    /**
     * <pre>
     * Mints a credential that reads the history and the state of one team and changes nothing. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void createObserver(io.teamwire.v1.CreateObserverRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateObserverResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateObserverMethod(), responseObserver);
    }

    /**
     * <pre>
     * Begins a life of a member's name: a new incarnation, with a new credential.
     * The call's credential is a join token, or the member's own credential. With a join token the name must be free:
     * never used, exited or lost. With its own credential a member begins a new life even while the old one is live:
     * the old one's session ends with CLOSE_REASON_SUPERSEDED and its credential is refused from then on. Either way the
     * inbox stays, and requests that were pending for the earlier life are cancelled.
     * UNAUTHENTICATED: JOIN_TOKEN_USED, JOIN_TOKEN_EXPIRED. ALREADY_EXISTS: MEMBER_EXISTS, IDEMPOTENCY_KEY_REUSED.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED.
     * PERMISSION_DENIED: NOT_PERMITTED (operator, observer; or the token is bound to another name).
     * </pre>
     */
    default void join(io.teamwire.v1.JoinRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.JoinResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getJoinMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends the caller's own life: it becomes `exited`, and the lead is told. A runner calls it when the process that it
     * owns has ended, with how. May be repeated, and is the one call that a stopped member may still make.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    default void leave(io.teamwire.v1.LeaveRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.LeaveResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLeaveMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the members of a team in the order in which they first joined, those that have exited included.
     * NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    default void listMembers(io.teamwire.v1.ListMembersRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListMembersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListMembersMethod(), responseObserver);
    }

    /**
     * <pre>
     * Renews the caller's lease and says whether it is at work. Going idle tells the lead.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_SUMMARY.
     * </pre>
     */
    default void heartbeat(io.teamwire.v1.HeartbeatRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.HeartbeatResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getHeartbeatMethod(), responseObserver);
    }

    /**
     * <pre>
     * Stops a member at once: its credential is refused from now on, its session ends with CLOSE_REASON_MEMBER_STOPPED,
     * its runner kills the process. It is `stopping` until its exit is reported or its lease has run out. Lead and
     * operator only. Repeating it is fine.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED. INVALID_ARGUMENT:
     * MISSING_RECIPIENT, SELF_RECIPIENT, INVALID_FIELD.
     * </pre>
     */
    default void forceStop(io.teamwire.v1.ForceStopRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ForceStopResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getForceStopMethod(), responseObserver);
    }

    /**
     * <pre>
     * Makes another member the lead. The lead may hand over its role at any time. The operator may appoint a lead when
     * the present one is lost or exited.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED, LEAD_ACTIVE.
     * INVALID_ARGUMENT: MISSING_RECIPIENT.
     * </pre>
     */
    default void setLead(io.teamwire.v1.SetLeadRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.SetLeadResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSetLeadMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TeamService.
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public static abstract class TeamServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TeamServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TeamService.
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public static final class TeamServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TeamServiceStub> {
    private TeamServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TeamServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TeamServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a team. The caller, who holds the operator's credential, becomes its lead: the reply carries the lead's
     * own member credential.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. ALREADY_EXISTS: TEAM_EXISTS,
     * IDEMPOTENCY_KEY_REUSED. PERMISSION_DENIED: OPERATOR_ONLY.
     * </pre>
     */
    public void createTeam(io.teamwire.v1.CreateTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTeamResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateTeamMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns one team.
     * NOT_FOUND: TEAM_NOT_FOUND, also when it is not the caller's to see.
     * </pre>
     */
    public void getTeam(io.teamwire.v1.GetTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.GetTeamResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTeamMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the teams that the caller may see: all of them for the operator, one for anybody else.
     * INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public void listTeams(io.teamwire.v1.ListTeamsRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListTeamsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTeamsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a team with everything that belongs to it. Lead and operator only. Refused while a member other than the
     * caller is live (joined, active, idle or stopping); the error names them, in its text and in the metadata of its
     * ErrorInfo, as NAME: STATE; of more than 12, these many, and how many more there are.
     * NOT_FOUND: TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY. FAILED_PRECONDITION: TEAM_HAS_ACTIVE_MEMBERS.
     * </pre>
     */
    public void deleteTeam(io.teamwire.v1.DeleteTeamRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTeamResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteTeamMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Mints a join token. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void invite(io.teamwire.v1.InviteRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.InviteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getInviteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Mints a credential that reads the history and the state of one team and changes nothing. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void createObserver(io.teamwire.v1.CreateObserverRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.CreateObserverResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateObserverMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Begins a life of a member's name: a new incarnation, with a new credential.
     * The call's credential is a join token, or the member's own credential. With a join token the name must be free:
     * never used, exited or lost. With its own credential a member begins a new life even while the old one is live:
     * the old one's session ends with CLOSE_REASON_SUPERSEDED and its credential is refused from then on. Either way the
     * inbox stays, and requests that were pending for the earlier life are cancelled.
     * UNAUTHENTICATED: JOIN_TOKEN_USED, JOIN_TOKEN_EXPIRED. ALREADY_EXISTS: MEMBER_EXISTS, IDEMPOTENCY_KEY_REUSED.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED.
     * PERMISSION_DENIED: NOT_PERMITTED (operator, observer; or the token is bound to another name).
     * </pre>
     */
    public void join(io.teamwire.v1.JoinRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.JoinResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getJoinMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends the caller's own life: it becomes `exited`, and the lead is told. A runner calls it when the process that it
     * owns has ended, with how. May be repeated, and is the one call that a stopped member may still make.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public void leave(io.teamwire.v1.LeaveRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.LeaveResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLeaveMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the members of a team in the order in which they first joined, those that have exited included.
     * NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public void listMembers(io.teamwire.v1.ListMembersRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ListMembersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListMembersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Renews the caller's lease and says whether it is at work. Going idle tells the lead.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_SUMMARY.
     * </pre>
     */
    public void heartbeat(io.teamwire.v1.HeartbeatRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.HeartbeatResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getHeartbeatMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Stops a member at once: its credential is refused from now on, its session ends with CLOSE_REASON_MEMBER_STOPPED,
     * its runner kills the process. It is `stopping` until its exit is reported or its lease has run out. Lead and
     * operator only. Repeating it is fine.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED. INVALID_ARGUMENT:
     * MISSING_RECIPIENT, SELF_RECIPIENT, INVALID_FIELD.
     * </pre>
     */
    public void forceStop(io.teamwire.v1.ForceStopRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.ForceStopResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getForceStopMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Makes another member the lead. The lead may hand over its role at any time. The operator may appoint a lead when
     * the present one is lost or exited.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED, LEAD_ACTIVE.
     * INVALID_ARGUMENT: MISSING_RECIPIENT.
     * </pre>
     */
    public void setLead(io.teamwire.v1.SetLeadRequest request,
        io.grpc.stub.StreamObserver<io.teamwire.v1.SetLeadResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSetLeadMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TeamService.
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public static final class TeamServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TeamServiceBlockingV2Stub> {
    private TeamServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TeamServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TeamServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a team. The caller, who holds the operator's credential, becomes its lead: the reply carries the lead's
     * own member credential.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. ALREADY_EXISTS: TEAM_EXISTS,
     * IDEMPOTENCY_KEY_REUSED. PERMISSION_DENIED: OPERATOR_ONLY.
     * </pre>
     */
    public io.teamwire.v1.CreateTeamResponse createTeam(io.teamwire.v1.CreateTeamRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one team.
     * NOT_FOUND: TEAM_NOT_FOUND, also when it is not the caller's to see.
     * </pre>
     */
    public io.teamwire.v1.GetTeamResponse getTeam(io.teamwire.v1.GetTeamRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the teams that the caller may see: all of them for the operator, one for anybody else.
     * INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ListTeamsResponse listTeams(io.teamwire.v1.ListTeamsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTeamsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a team with everything that belongs to it. Lead and operator only. Refused while a member other than the
     * caller is live (joined, active, idle or stopping); the error names them, in its text and in the metadata of its
     * ErrorInfo, as NAME: STATE; of more than 12, these many, and how many more there are.
     * NOT_FOUND: TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY. FAILED_PRECONDITION: TEAM_HAS_ACTIVE_MEMBERS.
     * </pre>
     */
    public io.teamwire.v1.DeleteTeamResponse deleteTeam(io.teamwire.v1.DeleteTeamRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Mints a join token. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.InviteResponse invite(io.teamwire.v1.InviteRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getInviteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Mints a credential that reads the history and the state of one team and changes nothing. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.CreateObserverResponse createObserver(io.teamwire.v1.CreateObserverRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateObserverMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Begins a life of a member's name: a new incarnation, with a new credential.
     * The call's credential is a join token, or the member's own credential. With a join token the name must be free:
     * never used, exited or lost. With its own credential a member begins a new life even while the old one is live:
     * the old one's session ends with CLOSE_REASON_SUPERSEDED and its credential is refused from then on. Either way the
     * inbox stays, and requests that were pending for the earlier life are cancelled.
     * UNAUTHENTICATED: JOIN_TOKEN_USED, JOIN_TOKEN_EXPIRED. ALREADY_EXISTS: MEMBER_EXISTS, IDEMPOTENCY_KEY_REUSED.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED.
     * PERMISSION_DENIED: NOT_PERMITTED (operator, observer; or the token is bound to another name).
     * </pre>
     */
    public io.teamwire.v1.JoinResponse join(io.teamwire.v1.JoinRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getJoinMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the caller's own life: it becomes `exited`, and the lead is told. A runner calls it when the process that it
     * owns has ended, with how. May be repeated, and is the one call that a stopped member may still make.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.LeaveResponse leave(io.teamwire.v1.LeaveRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getLeaveMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the members of a team in the order in which they first joined, those that have exited included.
     * NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListMembersResponse listMembers(io.teamwire.v1.ListMembersRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListMembersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Renews the caller's lease and says whether it is at work. Going idle tells the lead.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_SUMMARY.
     * </pre>
     */
    public io.teamwire.v1.HeartbeatResponse heartbeat(io.teamwire.v1.HeartbeatRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getHeartbeatMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops a member at once: its credential is refused from now on, its session ends with CLOSE_REASON_MEMBER_STOPPED,
     * its runner kills the process. It is `stopping` until its exit is reported or its lease has run out. Lead and
     * operator only. Repeating it is fine.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED. INVALID_ARGUMENT:
     * MISSING_RECIPIENT, SELF_RECIPIENT, INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ForceStopResponse forceStop(io.teamwire.v1.ForceStopRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getForceStopMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes another member the lead. The lead may hand over its role at any time. The operator may appoint a lead when
     * the present one is lost or exited.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED, LEAD_ACTIVE.
     * INVALID_ARGUMENT: MISSING_RECIPIENT.
     * </pre>
     */
    public io.teamwire.v1.SetLeadResponse setLead(io.teamwire.v1.SetLeadRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSetLeadMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TeamService.
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public static final class TeamServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TeamServiceBlockingStub> {
    private TeamServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TeamServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TeamServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a team. The caller, who holds the operator's credential, becomes its lead: the reply carries the lead's
     * own member credential.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. ALREADY_EXISTS: TEAM_EXISTS,
     * IDEMPOTENCY_KEY_REUSED. PERMISSION_DENIED: OPERATOR_ONLY.
     * </pre>
     */
    public io.teamwire.v1.CreateTeamResponse createTeam(io.teamwire.v1.CreateTeamRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one team.
     * NOT_FOUND: TEAM_NOT_FOUND, also when it is not the caller's to see.
     * </pre>
     */
    public io.teamwire.v1.GetTeamResponse getTeam(io.teamwire.v1.GetTeamRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the teams that the caller may see: all of them for the operator, one for anybody else.
     * INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ListTeamsResponse listTeams(io.teamwire.v1.ListTeamsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTeamsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a team with everything that belongs to it. Lead and operator only. Refused while a member other than the
     * caller is live (joined, active, idle or stopping); the error names them, in its text and in the metadata of its
     * ErrorInfo, as NAME: STATE; of more than 12, these many, and how many more there are.
     * NOT_FOUND: TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY. FAILED_PRECONDITION: TEAM_HAS_ACTIVE_MEMBERS.
     * </pre>
     */
    public io.teamwire.v1.DeleteTeamResponse deleteTeam(io.teamwire.v1.DeleteTeamRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteTeamMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Mints a join token. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.InviteResponse invite(io.teamwire.v1.InviteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getInviteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Mints a credential that reads the history and the state of one team and changes nothing. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.CreateObserverResponse createObserver(io.teamwire.v1.CreateObserverRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateObserverMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Begins a life of a member's name: a new incarnation, with a new credential.
     * The call's credential is a join token, or the member's own credential. With a join token the name must be free:
     * never used, exited or lost. With its own credential a member begins a new life even while the old one is live:
     * the old one's session ends with CLOSE_REASON_SUPERSEDED and its credential is refused from then on. Either way the
     * inbox stays, and requests that were pending for the earlier life are cancelled.
     * UNAUTHENTICATED: JOIN_TOKEN_USED, JOIN_TOKEN_EXPIRED. ALREADY_EXISTS: MEMBER_EXISTS, IDEMPOTENCY_KEY_REUSED.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED.
     * PERMISSION_DENIED: NOT_PERMITTED (operator, observer; or the token is bound to another name).
     * </pre>
     */
    public io.teamwire.v1.JoinResponse join(io.teamwire.v1.JoinRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getJoinMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the caller's own life: it becomes `exited`, and the lead is told. A runner calls it when the process that it
     * owns has ended, with how. May be repeated, and is the one call that a stopped member may still make.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.LeaveResponse leave(io.teamwire.v1.LeaveRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLeaveMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the members of a team in the order in which they first joined, those that have exited included.
     * NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public io.teamwire.v1.ListMembersResponse listMembers(io.teamwire.v1.ListMembersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListMembersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Renews the caller's lease and says whether it is at work. Going idle tells the lead.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_SUMMARY.
     * </pre>
     */
    public io.teamwire.v1.HeartbeatResponse heartbeat(io.teamwire.v1.HeartbeatRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getHeartbeatMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops a member at once: its credential is refused from now on, its session ends with CLOSE_REASON_MEMBER_STOPPED,
     * its runner kills the process. It is `stopping` until its exit is reported or its lease has run out. Lead and
     * operator only. Repeating it is fine.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED. INVALID_ARGUMENT:
     * MISSING_RECIPIENT, SELF_RECIPIENT, INVALID_FIELD.
     * </pre>
     */
    public io.teamwire.v1.ForceStopResponse forceStop(io.teamwire.v1.ForceStopRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getForceStopMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes another member the lead. The lead may hand over its role at any time. The operator may appoint a lead when
     * the present one is lost or exited.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED, LEAD_ACTIVE.
     * INVALID_ARGUMENT: MISSING_RECIPIENT.
     * </pre>
     */
    public io.teamwire.v1.SetLeadResponse setLead(io.teamwire.v1.SetLeadRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSetLeadMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TeamService.
   * <pre>
   * Makes teams, and brings members in and out of them. What is said of credentials and errors at MessageService holds
   * here too.
   * Four kinds of credential exist. The operator's belongs to the coordinator: it makes, lists and deletes teams and may
   * do in any team what a lead may. A member's belongs to one life of one member. A join token lets its bearer become a
   * member. An observer's reads one team. All are opaque strings; the coordinator stores only their hashes.
   * </pre>
   */
  public static final class TeamServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TeamServiceFutureStub> {
    private TeamServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TeamServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TeamServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a team. The caller, who holds the operator's credential, becomes its lead: the reply carries the lead's
     * own member credential.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. ALREADY_EXISTS: TEAM_EXISTS,
     * IDEMPOTENCY_KEY_REUSED. PERMISSION_DENIED: OPERATOR_ONLY.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.CreateTeamResponse> createTeam(
        io.teamwire.v1.CreateTeamRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateTeamMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns one team.
     * NOT_FOUND: TEAM_NOT_FOUND, also when it is not the caller's to see.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.GetTeamResponse> getTeam(
        io.teamwire.v1.GetTeamRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTeamMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the teams that the caller may see: all of them for the operator, one for anybody else.
     * INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListTeamsResponse> listTeams(
        io.teamwire.v1.ListTeamsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTeamsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a team with everything that belongs to it. Lead and operator only. Refused while a member other than the
     * caller is live (joined, active, idle or stopping); the error names them, in its text and in the metadata of its
     * ErrorInfo, as NAME: STATE; of more than 12, these many, and how many more there are.
     * NOT_FOUND: TEAM_NOT_FOUND. PERMISSION_DENIED: LEAD_ONLY. FAILED_PRECONDITION: TEAM_HAS_ACTIVE_MEMBERS.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.DeleteTeamResponse> deleteTeam(
        io.teamwire.v1.DeleteTeamRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteTeamMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Mints a join token. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.InviteResponse> invite(
        io.teamwire.v1.InviteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getInviteMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Mints a credential that reads the history and the state of one team and changes nothing. Lead and operator only.
     * PERMISSION_DENIED: LEAD_ONLY. INVALID_ARGUMENT: INVALID_FIELD. NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.CreateObserverResponse> createObserver(
        io.teamwire.v1.CreateObserverRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateObserverMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Begins a life of a member's name: a new incarnation, with a new credential.
     * The call's credential is a join token, or the member's own credential. With a join token the name must be free:
     * never used, exited or lost. With its own credential a member begins a new life even while the old one is live:
     * the old one's session ends with CLOSE_REASON_SUPERSEDED and its credential is refused from then on. Either way the
     * inbox stays, and requests that were pending for the earlier life are cancelled.
     * UNAUTHENTICATED: JOIN_TOKEN_USED, JOIN_TOKEN_EXPIRED. ALREADY_EXISTS: MEMBER_EXISTS, IDEMPOTENCY_KEY_REUSED.
     * INVALID_ARGUMENT: INVALID_NAME, INVALID_FIELD, INVALID_IDEMPOTENCY_KEY. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED.
     * PERMISSION_DENIED: NOT_PERMITTED (operator, observer; or the token is bound to another name).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.JoinResponse> join(
        io.teamwire.v1.JoinRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getJoinMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends the caller's own life: it becomes `exited`, and the lead is told. A runner calls it when the process that it
     * owns has ended, with how. May be repeated, and is the one call that a stopped member may still make.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_FIELD.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.LeaveResponse> leave(
        io.teamwire.v1.LeaveRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLeaveMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the members of a team in the order in which they first joined, those that have exited included.
     * NOT_FOUND: TEAM_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ListMembersResponse> listMembers(
        io.teamwire.v1.ListMembersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListMembersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Renews the caller's lease and says whether it is at work. Going idle tells the lead.
     * PERMISSION_DENIED: NOT_PERMITTED. INVALID_ARGUMENT: INVALID_SUMMARY.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.HeartbeatResponse> heartbeat(
        io.teamwire.v1.HeartbeatRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getHeartbeatMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Stops a member at once: its credential is refused from now on, its session ends with CLOSE_REASON_MEMBER_STOPPED,
     * its runner kills the process. It is `stopping` until its exit is reported or its lease has run out. Lead and
     * operator only. Repeating it is fine.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED. INVALID_ARGUMENT:
     * MISSING_RECIPIENT, SELF_RECIPIENT, INVALID_FIELD.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.ForceStopResponse> forceStop(
        io.teamwire.v1.ForceStopRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getForceStopMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Makes another member the lead. The lead may hand over its role at any time. The operator may appoint a lead when
     * the present one is lost or exited.
     * PERMISSION_DENIED: LEAD_ONLY. NOT_FOUND: AGENT_NOT_FOUND. FAILED_PRECONDITION: AGENT_EXITED, LEAD_ACTIVE.
     * INVALID_ARGUMENT: MISSING_RECIPIENT.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.teamwire.v1.SetLeadResponse> setLead(
        io.teamwire.v1.SetLeadRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSetLeadMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_TEAM = 0;
  private static final int METHODID_GET_TEAM = 1;
  private static final int METHODID_LIST_TEAMS = 2;
  private static final int METHODID_DELETE_TEAM = 3;
  private static final int METHODID_INVITE = 4;
  private static final int METHODID_CREATE_OBSERVER = 5;
  private static final int METHODID_JOIN = 6;
  private static final int METHODID_LEAVE = 7;
  private static final int METHODID_LIST_MEMBERS = 8;
  private static final int METHODID_HEARTBEAT = 9;
  private static final int METHODID_FORCE_STOP = 10;
  private static final int METHODID_SET_LEAD = 11;

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
        case METHODID_CREATE_TEAM:
          serviceImpl.createTeam((io.teamwire.v1.CreateTeamRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.CreateTeamResponse>) responseObserver);
          break;
        case METHODID_GET_TEAM:
          serviceImpl.getTeam((io.teamwire.v1.GetTeamRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.GetTeamResponse>) responseObserver);
          break;
        case METHODID_LIST_TEAMS:
          serviceImpl.listTeams((io.teamwire.v1.ListTeamsRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListTeamsResponse>) responseObserver);
          break;
        case METHODID_DELETE_TEAM:
          serviceImpl.deleteTeam((io.teamwire.v1.DeleteTeamRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.DeleteTeamResponse>) responseObserver);
          break;
        case METHODID_INVITE:
          serviceImpl.invite((io.teamwire.v1.InviteRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.InviteResponse>) responseObserver);
          break;
        case METHODID_CREATE_OBSERVER:
          serviceImpl.createObserver((io.teamwire.v1.CreateObserverRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.CreateObserverResponse>) responseObserver);
          break;
        case METHODID_JOIN:
          serviceImpl.join((io.teamwire.v1.JoinRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.JoinResponse>) responseObserver);
          break;
        case METHODID_LEAVE:
          serviceImpl.leave((io.teamwire.v1.LeaveRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.LeaveResponse>) responseObserver);
          break;
        case METHODID_LIST_MEMBERS:
          serviceImpl.listMembers((io.teamwire.v1.ListMembersRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ListMembersResponse>) responseObserver);
          break;
        case METHODID_HEARTBEAT:
          serviceImpl.heartbeat((io.teamwire.v1.HeartbeatRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.HeartbeatResponse>) responseObserver);
          break;
        case METHODID_FORCE_STOP:
          serviceImpl.forceStop((io.teamwire.v1.ForceStopRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.ForceStopResponse>) responseObserver);
          break;
        case METHODID_SET_LEAD:
          serviceImpl.setLead((io.teamwire.v1.SetLeadRequest) request,
              (io.grpc.stub.StreamObserver<io.teamwire.v1.SetLeadResponse>) responseObserver);
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
          getCreateTeamMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.CreateTeamRequest,
              io.teamwire.v1.CreateTeamResponse>(
                service, METHODID_CREATE_TEAM)))
        .addMethod(
          getGetTeamMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.GetTeamRequest,
              io.teamwire.v1.GetTeamResponse>(
                service, METHODID_GET_TEAM)))
        .addMethod(
          getListTeamsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListTeamsRequest,
              io.teamwire.v1.ListTeamsResponse>(
                service, METHODID_LIST_TEAMS)))
        .addMethod(
          getDeleteTeamMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.DeleteTeamRequest,
              io.teamwire.v1.DeleteTeamResponse>(
                service, METHODID_DELETE_TEAM)))
        .addMethod(
          getInviteMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.InviteRequest,
              io.teamwire.v1.InviteResponse>(
                service, METHODID_INVITE)))
        .addMethod(
          getCreateObserverMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.CreateObserverRequest,
              io.teamwire.v1.CreateObserverResponse>(
                service, METHODID_CREATE_OBSERVER)))
        .addMethod(
          getJoinMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.JoinRequest,
              io.teamwire.v1.JoinResponse>(
                service, METHODID_JOIN)))
        .addMethod(
          getLeaveMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.LeaveRequest,
              io.teamwire.v1.LeaveResponse>(
                service, METHODID_LEAVE)))
        .addMethod(
          getListMembersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ListMembersRequest,
              io.teamwire.v1.ListMembersResponse>(
                service, METHODID_LIST_MEMBERS)))
        .addMethod(
          getHeartbeatMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.HeartbeatRequest,
              io.teamwire.v1.HeartbeatResponse>(
                service, METHODID_HEARTBEAT)))
        .addMethod(
          getForceStopMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.ForceStopRequest,
              io.teamwire.v1.ForceStopResponse>(
                service, METHODID_FORCE_STOP)))
        .addMethod(
          getSetLeadMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.teamwire.v1.SetLeadRequest,
              io.teamwire.v1.SetLeadResponse>(
                service, METHODID_SET_LEAD)))
        .build();
  }

  private static abstract class TeamServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TeamServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.teamwire.v1.TeamOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TeamService");
    }
  }

  private static final class TeamServiceFileDescriptorSupplier
      extends TeamServiceBaseDescriptorSupplier {
    TeamServiceFileDescriptorSupplier() {}
  }

  private static final class TeamServiceMethodDescriptorSupplier
      extends TeamServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TeamServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TeamServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TeamServiceFileDescriptorSupplier())
              .addMethod(getCreateTeamMethod())
              .addMethod(getGetTeamMethod())
              .addMethod(getListTeamsMethod())
              .addMethod(getDeleteTeamMethod())
              .addMethod(getInviteMethod())
              .addMethod(getCreateObserverMethod())
              .addMethod(getJoinMethod())
              .addMethod(getLeaveMethod())
              .addMethod(getListMembersMethod())
              .addMethod(getHeartbeatMethod())
              .addMethod(getForceStopMethod())
              .addMethod(getSetLeadMethod())
              .build();
        }
      }
    }
    return result;
  }
}
