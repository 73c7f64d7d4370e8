# SPDX-License-Identifier: Apache-2.0
# The functions of bench/rpc/functions.h: sink returns a short word, echo the request's bytes.
@0xd2f1c4b5a6978801;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("verbena::rpcbench");

interface Calls {
  sink @0 (bytes :Data) -> (bytes :Data);
  echo @1 (bytes :Data) -> (bytes :Data);
}
