// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/error.h"

namespace verbena::kv {

std::string_view sentence_of(Error error) {
	switch (error) {
		case Error::missing: return "there is no such key";
		case Error::empty_key: return "the key is empty; a key has 1 to 4096 bytes";
		case Error::long_key: return "the key is too long; a key has 1 to 4096 bytes";
		case Error::long_value: return "the value is too long for this server; a value has at most 64 MiB";
		case Error::full: return "the store is full; delete keys, or start the server with more --memory";
		case Error::changed: return "the key has another version; nothing has changed";
		case Error::disk: return "the server could not write the change to its disk; nothing has changed";
		case Error::unsupported:
			return "rendezvous needs an RDMA connection, and this one is over TCP; use the protocol eager or auto";
		case Error::old_server: return "the server is of an earlier version, which does not know this operation";
		case Error::member:
			return "the server is a member of a cluster and has a part of the keys; connect to the cluster's etcd "
				   "prefix";
		case Error::many_watches: return "this client has 256 watches, which is the most; end one of them first";
		case Error::no_memory: return "this process has no registered memory left; have fewer large values under way";
		case Error::lost: return "the connection is lost; whether the store has changed is unknown";
		case Error::unavailable: return "the server could not be reached in time; nothing has changed";
		case Error::timeout:
			return "the server did not answer in time; a change may have been made, or may yet be, once";
	}
	return "?";
}

}  // namespace verbena::kv
