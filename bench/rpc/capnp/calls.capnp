# What is called: as in bench/rpc/functions.h, the request's bytes and a short word or the bytes back.
@0xd2f1c4b5a6978801;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("verbena::rpcbench");

interface Calls {
  sink @0 (bytes :Data) -> (bytes :Data);
  echo @1 (bytes :Data) -> (bytes :Data);
}
