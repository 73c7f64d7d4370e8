// SPDX-License-Identifier: Apache-2.0
// Says in one sentence why a request failed: which queue pair, which peer, which key and bytes, and
// what to do. The sentence goes to the log (level warn) and into the trace (nic/trace).
//
// Each function returns at once, unless there is someone to read the sentence: VERBENA_LOG=warn or
// a trace.
//
// Threads: under the engine's lock; called by the transport (Context::explain) at a failure, so not
//   on the path of requests that succeed.
// Errors: none. A sentence that is too long is cut off.
#pragma once

#include "nic/engine/sentence.h"
#include "nic/transport/context.h"

namespace verbena::engine {

// The functions below, for Context::explain.
extern const transport::Explainer explainer;

// The oldest request of a send queue fails. `wqe` is null if the queue is empty.
void explain_failure(transport::Context&, const transport::QueuePair&, const queues::SendWqe*, queues::Status);
// A responder has refused a request.
void explain_refusal(transport::Context&, const transport::QueuePair&, const wire::Slot&, const wire::Diagnosis&);
// A queue pair has entered the error state, and these requests are flushed.
void explain_flush(transport::Context&, const transport::QueuePair&, transport::ErrorCause, std::uint32_t sends,
	std::uint32_t receives);

// True if there is someone to read a sentence.
bool somebody_reads();
// Writes a sentence to the log and into the trace, for the queue pair `qpn` if that is not 0.
void publish(const Sentence&, std::uint32_t qpn = 0, std::uint32_t peer_qpn = 0);

}  // namespace verbena::engine
