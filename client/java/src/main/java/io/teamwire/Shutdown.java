package io.teamwire;

import io.teamwire.v1.ExitReport;
import io.teamwire.v1.Request;
import java.util.Optional;

/**
 * How a shutdown ended.
 *
 * @param request the request, with its decision; still pending if the time ran out first
 * @param exit how the member's process ended; empty if it has not exited in time, or no exit was reported
 */
public record Shutdown(Request request, Optional<ExitReport> exit) {}
