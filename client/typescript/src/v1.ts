/** The protocol: the messages, enums and services of `proto/`. */

export * from "./gen/teamwire/v1/access_pb.js";
export * from "./gen/teamwire/v1/activity_pb.js";
export * from "./gen/teamwire/v1/audit_pb.js";
export * from "./gen/teamwire/v1/backup_pb.js";
export * from "./gen/teamwire/v1/history_pb.js";
export * from "./gen/teamwire/v1/host_pb.js";
export * from "./gen/teamwire/v1/message_pb.js";
export * from "./gen/teamwire/v1/query_pb.js";
export * from "./gen/teamwire/v1/request_pb.js";
export * from "./gen/teamwire/v1/task_pb.js";
export * from "./gen/teamwire/v1/team_pb.js";
export * from "./gen/teamwire/v1/transcript_pb.js";
export * from "./gen/teamwire/v1/watch_pb.js";
export * from "./gen/teamwire/v1/work_pb.js";
