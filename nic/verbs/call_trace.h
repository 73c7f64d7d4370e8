// SPDX-License-Identifier: Apache-2.0
// A call of a verb in the trace: its name, its arguments as text, its result, its time.
//
// The arguments are written before the call, because a destroy function frees them, and the result
// after it. An object is named by its kind and number: "qp 0x1007", "pd 3". The numbers of queue
// pairs, regions and domains are those that the program sees; completion queues and shared receive
// queues have none, and are named by their address.
//
// Threads: any.
// Invariants: CallText has no destructor, because a thread may leave a verb that sleeps
//   (nic/engine/waiting.h). It allocates nothing, and cuts off a text that is too long.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <infiniband/verbs.h>

#include "base/time.h"
#include "nic/trace/trace.h"

namespace verbena::verbs {

class CallText {
public:
	// The verb, and where its arguments begin.
	explicit CallText(const char* verb);

	[[gnu::format(printf, 2, 3)]] void append(const char* format, ...);
	// Ends the part: the arguments, or the result.
	void end_part();
	// The time at which the verb was called.
	void begins() { began_ = monotonic_now(); }
	// Writes the call into the trace; `error` is the errno of a call that failed, or 0.
	void write(int error) const;

private:
	Nanoseconds began_ = 0;
	std::size_t size_ = 0;
	char bytes_[1500];
};

// Each appends an argument or a result.
void describe(CallText&, const char*);
void describe(CallText&, const ibv_device*);
void describe(CallText&, const ibv_context*);
void describe(CallText&, const ibv_pd*);
void describe(CallText&, const ibv_mr*);
void describe(CallText&, const ibv_mw*);
void describe(CallText&, const ibv_cq*);
void describe(CallText&, const ibv_cq_ex*);
void describe(CallText&, const ibv_comp_channel*);
void describe(CallText&, const ibv_qp*);
void describe(CallText&, const ibv_srq*);
void describe(CallText&, const ibv_ah*);
void describe(CallText&, const ibv_gid*);
void describe(CallText&, const ibv_ah_attr*);
void describe(CallText&, const ibv_qp_init_attr*);
void describe(CallText&, const ibv_qp_init_attr_ex*);
void describe(CallText&, const ibv_cq_init_attr_ex*);
void describe(CallText&, const ibv_srq_init_attr*);
void describe(CallText&, const void*);

// The arguments of verbs of which one says what another means, or is an output: ibv_modify_qp,
// ibv_query_qp, ibv_query_gid, ibv_reg_mr, ibv_reg_mr_iova2.
void describe_arguments(CallText&, ibv_qp*, ibv_qp_attr*, int mask);
void describe_arguments(CallText&, ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
void describe_arguments(CallText&, ibv_context*, std::uint8_t port, int index, ibv_gid*);
void describe_arguments(CallText&, ibv_pd*, void* address, std::size_t length, int access);
void describe_arguments(CallText&, ibv_pd*, void* address, std::size_t length, std::uint64_t iova, unsigned access);

template <class Argument> void describe_argument(CallText& text, const Argument& argument) {
	if constexpr (std::is_integral_v<Argument> || std::is_enum_v<Argument>)
		text.append("%lld", static_cast<long long>(argument));
	else if constexpr (std::is_pointer_v<std::remove_pointer_t<Argument>>)
		describe(text, static_cast<const void*>(argument));  // an output
	else describe(text, argument);
}

inline void describe_arguments(CallText&) {}
template <class First, class... Others> void describe_arguments(CallText& text, First first, Others... others) {
	describe_argument(text, first);
	((text.append(", "), describe_argument(text, others)), ...);
}

// Runs call(arguments...) and writes it into the trace.
template <class Result, class... Parameters>
[[gnu::cold, gnu::noinline]] Result traced_call(
	const char* verb, Result (*call)(Parameters...), std::type_identity_t<Parameters>... arguments) {
	CallText text(verb);
	describe_arguments(text, arguments...);
	text.end_part();
	text.begins();
	if constexpr (std::is_void_v<Result>) {
		call(arguments...);
		text.write(0);
	} else {
		const Result result = call(arguments...);
		int error = 0;
		if constexpr (std::is_pointer_v<Result>) error = result ? 0 : errno;
		else if (result < 0) error = errno;
		// Most verbs return an errno value.
		else if (result > 0 && result < 4096) error = static_cast<int>(result);
		describe_argument(text, result);
		text.write(error);
		return result;
	}
}

}  // namespace verbena::verbs
