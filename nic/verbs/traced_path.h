// SPDX-License-Identifier: Apache-2.0
// The data path of a process that is traced: each function writes into the trace and calls the
// function of objects.h or of the extended interfaces. They replace those in the tables of function
// pointers, so that a process without a trace pays nothing.
//
// Threads: as the functions that they call.
#pragma once

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Starts the trace of the process, if VERBENA_TRACE asks for one.
void begin_trace() noexcept;

// Replaces the functions in the tables, if there is a trace.
void trace_data_path(ibv_context_ops&);
void trace_extended_post(SoftQp&);
void trace_extended_poll(SoftCq&);

// Lets the trace have what the engine's transport does.
void trace_transport(engine::Engine&);

}  // namespace verbena::verbs
