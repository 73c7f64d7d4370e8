// SPDX-License-Identifier: Apache-2.0
// The exports that give an enumerator's text. Programs print these texts and scripts search for
// them, so they are those of rdma-core, word for word.
#include <span>

#include <infiniband/verbs.h>

namespace {

// The texts of consecutive enumerators that start at `first`.
const char* text_of(std::span<const char* const> texts, int first, int value) {
	const long index = static_cast<long>(value) - first;
	return index >= 0 && index < static_cast<long>(texts.size()) ? texts[static_cast<std::size_t>(index)] : "unknown";
}

constexpr const char* node_types[] = {"InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router",
	"iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
static_assert(std::size(node_types) == IBV_NODE_UNSPECIFIED - IBV_NODE_CA + 1);

constexpr const char* port_states[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
static_assert(std::size(port_states) == IBV_PORT_ACTIVE_DEFER - IBV_PORT_NOP + 1);

constexpr const char* event_types[] = {
	"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
	"local access violation work queue error", "communication established", "send queue drained", "path migrated",
	"path migration request error", "local catastrophic error", "port active", "port error", "LID change",
	"P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached",
	"client reregistration", "GID table change", "WQ fatal",
	"Device link speed change",  // the installed verbs.h may not know the last one
};
static_assert(std::size(event_types) >= IBV_EVENT_WQ_FATAL - IBV_EVENT_CQ_ERR + 1);

constexpr const char* completion_statuses[] = {
	"success",
	"local length error",
	"local QP operation error",
	"local EE context operation error",
	"local protection error",
	"Work Request Flushed Error",
	"memory management operation error",
	"bad response error",
	"local access error",
	"remote invalid request error",
	"remote access error",
	"remote operation error",
	"transport retry counter exceeded",
	"RNR retry counter exceeded",
	"local RDD violation error",
	"remote invalid RD request",
	"aborted error",
	"invalid EE context number",
	"invalid EE context state",
	"fatal error",
	"response timeout error",
	"general error",
	"TM error",
	"TM software rendezvous",
};
static_assert(std::size(completion_statuses) == IBV_WC_TM_RNDV_INCOMPLETE - IBV_WC_SUCCESS + 1);

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

const char* ibv_node_type_str(ibv_node_type type) { return text_of(node_types, IBV_NODE_CA, type); }
const char* ibv_port_state_str(ibv_port_state state) { return text_of(port_states, IBV_PORT_NOP, state); }
const char* ibv_event_type_str(ibv_event_type type) {
	return text_of(event_types, IBV_EVENT_CQ_ERR, static_cast<int>(type));
}
const char* ibv_wc_status_str(ibv_wc_status status) {
	return text_of(completion_statuses, IBV_WC_SUCCESS, static_cast<int>(status));
}

#pragma GCC visibility pop
}
