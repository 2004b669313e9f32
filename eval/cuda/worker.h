// The inside of a GPU worker process: one device, one context, several lanes. Speaks protocol.h
// over a socket until the head closes it. Nothing a candidate does is survived on purpose: a sticky
// error, or a wait past its deadline, is reported (kFatal) and the process ends itself with
// SIGKILL, because a context with a running kernel cannot be torn down in order.
#pragma once

namespace grove::cuda {

// Serves until the channel closes; the process's exit code (0; 1 when it could not start, after
// telling the head why). `channel` is the socket.
int ServeWorker(int channel);

}  // namespace grove::cuda
