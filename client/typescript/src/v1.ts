/** The protocol: all its messages, enums and services, as `proto/` has them. */

export * from "./gen/teamwire/v1/history_pb.js";
export * from "./gen/teamwire/v1/message_pb.js";
export * from "./gen/teamwire/v1/request_pb.js";
export * from "./gen/teamwire/v1/task_pb.js";
export * from "./gen/teamwire/v1/team_pb.js";
