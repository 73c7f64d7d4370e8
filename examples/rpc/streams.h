// What the server of streams offers. A client needs the declarations only.
#pragma once

#include <verbena/rpc.h>

#include <string>

verbena::rpc::Lazy<void> primes(verbena::rpc::stream_writer<int> out, int count);                        // the server writes
verbena::rpc::Lazy<double> mean(verbena::rpc::stream_reader<double> in);                                 // the client writes
verbena::rpc::Lazy<int> shout(verbena::rpc::stream<std::string, std::string> both, std::string mark);    // both do
