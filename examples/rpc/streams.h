// SPDX-License-Identifier: Apache-2.0
// The functions of the example server of streams. A client needs only these declarations.
#pragma once

#include <verbena/rpc.h>

#include <string>

#include "arguments.h"

// The server writes the first `count` primes.
verbena::rpc::Lazy<void> primes(verbena::rpc::stream_writer<int> out, int count);
// The client writes numbers; the result is their mean.
verbena::rpc::Lazy<double> mean(verbena::rpc::stream_reader<double> in);
// Both write: each word comes back with the mark. The result is the number of words.
verbena::rpc::Lazy<int> shout(verbena::rpc::stream<std::string, std::string> both, std::string mark);
