// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/limits.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"

namespace verbena::verbs {
namespace {

struct Chosen {
	const profile::Profile* profile;  // null: there is none of the name
	profile::Limits limits;
};

const char* profile_wanted() {
	const char* const name = std::getenv("VERBENA_PROFILE");
	return name ? name : "";
}

// Needs no destructor: programs call verbs from their own destructors and exit handlers.
const Chosen& chosen() {
	static const Chosen once = [] {
		const profile::Profile* const found = *profile_wanted() ? profile::find(profile_wanted()) : &profile::own();
		return Chosen{found, profile::limits_of(found ? *found : profile::own())};
	}();
	return once;
}

constexpr std::uint16_t bit(ibv_wr_opcode opcode) { return static_cast<std::uint16_t>(1 << opcode); }
constexpr std::uint16_t windows = bit(IBV_WR_BIND_MW) | bit(IBV_WR_LOCAL_INV);
constexpr std::uint16_t atomics = bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);

bool reasons_wanted() { return log::wants_reasons() || log::enabled(log::Level::warn); }

// Refuses a call because of the profile.
int refuse(int error, const char* reason, const char* advice) {
	const std::string_view name = device_limits().profile;
	char text[480];
	std::snprintf(text, sizeof text, "%s (profile %.*s)%s", reason, static_cast<int>(name.size()), name.data(), advice);
	// log::refuse() prints the line at the level info.
	if (!log::enabled(log::Level::info)) log::warn("%s", text);
	return log::refuse(error, "%s", text);
}

// The operations of ibv_qp_init_attr_ex::send_ops_flags.
constexpr struct {
	std::uint64_t flag;
	ibv_wr_opcode opcode;
} extended_operations[] = {{IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE},
	{IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}, {IBV_QP_EX_WITH_SEND, IBV_WR_SEND},
	{IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM}, {IBV_QP_EX_WITH_RDMA_READ, IBV_WR_RDMA_READ},
	{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
	{IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD}, {IBV_QP_EX_WITH_LOCAL_INV, IBV_WR_LOCAL_INV},
	{IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW}, {IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV}};

}  // namespace

const profile::Limits& device_limits() { return chosen().limits; }

int check_profile() {
	if (chosen().profile) return 0;
	log::error("VERBENA_PROFILE: there is no profile '%s'; `verbena run --profile=list` prints them", profile_wanted());
	return EINVAL;
}

bool has_type(ibv_qp_type type) {
	const std::uint8_t types = device_limits().types;
	switch (type) {
		case IBV_QPT_RC: return types & profile::rc;
		case IBV_QPT_UC: return types & profile::uc;
		case IBV_QPT_UD: return types & profile::ud;
		default: return false;
	}
}

std::uint16_t opcodes_of_transport(ibv_qp_type type) {
	constexpr std::uint16_t of_ud = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
	constexpr std::uint16_t of_uc = of_ud | bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM) | windows;
	constexpr std::uint16_t of_rc = of_uc | atomics | bit(IBV_WR_RDMA_READ) | bit(IBV_WR_SEND_WITH_INV);
	return type == IBV_QPT_UD ? of_ud : type == IBV_QPT_UC ? of_uc : of_rc;
}

std::uint16_t opcodes_of(ibv_qp_type type) {
	const profile::Limits& limits = device_limits();
	unsigned missing = 0;
	if (!limits.immediate) missing |= bit(IBV_WR_SEND_WITH_IMM) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);
	if (!limits.windows) missing |= windows;
	if (limits.atomics == profile::Atomics::none) missing |= atomics;
	return static_cast<std::uint16_t>(opcodes_of_transport(type) & ~missing);
}

std::uint64_t operations_of(ibv_qp_type type) {
	std::uint64_t flags = 0;
	for (const auto& [flag, opcode] : extended_operations)
		if (opcodes_of(type) & bit(opcode)) flags |= flag;
	return flags;
}

std::uint16_t opcodes_of_operations(std::uint64_t operations) {
	unsigned opcodes = 0;
	for (const auto& [flag, opcode] : extended_operations)
		if (operations & flag) opcodes |= bit(opcode);
	return static_cast<std::uint16_t>(opcodes);
}

int refuse_by_profile(int error, const char* format, ...) {
	if (!reasons_wanted()) return errno = error;
	char reason[400];
	va_list arguments;
	va_start(arguments, format);
	std::vsnprintf(reason, sizeof reason, format, arguments);
	va_end(arguments);
	return refuse(error, reason, "");
}

int refuse_figure(const char* verb, const char* name, std::uint32_t wanted, std::uint32_t most, const char* advice) {
	if (!reasons_wanted()) return errno = EINVAL;
	char reason[160];
	const bool chosen = !device_limits().profile.empty();
	std::snprintf(reason, sizeof reason, "%s: %s %u %s %u", verb, name, wanted, chosen ? ">" : "is above", most);
	return chosen ? refuse(EINVAL, reason, advice) : log::refuse(EINVAL, "%s%s", reason, advice);
}

}  // namespace verbena::verbs
