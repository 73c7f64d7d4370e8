// SPDX-License-Identifier: Apache-2.0
// The verbs as a C program may call them: an exception becomes an errno value
// (nic/engine/boundary.h), a trace gets the call (call_trace.h), and so does a checker
// (checked_calls.h). exports.cc, exports_devices.cc and the tables of function pointers call every
// function of ours by guarded<function>.
//
// Not so the data path (objects.h) and the getters, which cannot throw.
#pragma once

#include <array>
#include <cerrno>
#include <string_view>
#include <type_traits>

#include "nic/engine/boundary.h"
#include "nic/engine/waiting.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/call_trace.h"
#include "nic/verbs/checked_calls.h"

namespace verbena::verbs {

// The form in which a verb that returns a number reports an error. A verb that returns a pointer
// returns NULL; errno is set in any case.
enum class Reports { errno_value, negative_errno, minus_one };

template <Reports how, class Result> Result failure([[maybe_unused]] int error) {
	if constexpr (std::is_pointer_v<Result>) return nullptr;
	else if constexpr (std::is_void_v<Result>) return;
	else if constexpr (how == Reports::errno_value) return error;
	else if constexpr (how == Reports::negative_errno) return -error;
	else return -1;
}

// The name of the public function of a verb, `ibv_reg_mr` for ours::reg_mr, from the text in which
// the compiler names this function: "... [with auto verb = verbena::verbs::reg_mr; ...]".
template <auto verb> consteval auto public_name_of() {
	std::string_view text = __PRETTY_FUNCTION__;
	text.remove_prefix(text.find("verb = ") + 7);
	text = text.substr(0, text.find_first_of(";]"));
	text.remove_prefix(text.rfind(':') + 1);
	std::array<char, 64> name{};
	std::size_t at = 0;
	for (const std::string_view part : {std::string_view("ibv_"), text})
		for (const char c : part) name.at(at++) = c;
	return name;
}
template <auto verb> inline constexpr auto public_name = public_name_of<verb>();

// Each calls `run`, and reports the call to a trace or to a checker, if there is one. No object
// lives across the call, for verbs that sleep.
template <auto verb, class Result, class... Parameters>
Result observed(Result (*run)(Parameters...), Parameters... parameters) {
	if (trace::on()) [[unlikely]]
		return traced_call<Result>(public_name<verb>.data(), run, parameters...);
	return run(parameters...);
}
template <auto verb, Reports how, class Result, class... Parameters>
[[gnu::cold, gnu::noinline]] Result checked_call(Result (*run)(Parameters...), Parameters... parameters) {
	if (Checks<verb>::refuses(public_name<verb>.data(), parameters...)) return failure<how, Result>(EINVAL);
	Checks<verb>::before(parameters...);
	if constexpr (std::is_void_v<Result>) {
		observed<verb>(run, parameters...);
	} else {
		const Result result = observed<verb>(run, parameters...);
		Checks<verb>::after(result, parameters...);
		return result;
	}
}
// The verbs that an adversary makes slow: those of the set-up of a connection and of memory.
template <auto verb> inline constexpr bool may_be_slow = false;
template <> inline constexpr bool may_be_slow<create_qp> = true;
template <> inline constexpr bool may_be_slow<create_qp_ex> = true;
template <> inline constexpr bool may_be_slow<modify_qp> = true;
template <> inline constexpr bool may_be_slow<reg_mr> = true;
template <> inline constexpr bool may_be_slow<reg_mr_iova2> = true;

template <auto verb, Reports how, class Result, class... Parameters>
Result watched_call(Result (*run)(Parameters...), Parameters... parameters) {
	if constexpr (may_be_slow<verb>) linger();
	if (checked()) [[unlikely]]
		return checked_call<verb, how>(run, parameters...);
	return observed<verb>(run, parameters...);
}

template <auto verb, Reports how, class Function = decltype(verb)> struct Guard;

template <auto verb, Reports how, class Result, class... Parameters>
struct Guard<verb, how, Result (*)(Parameters...)> {
	static Result run(Parameters... parameters) {
		return engine::bounded(public_name<verb>.data(), [&] { return verb(parameters...); }, failure<how, Result>);
	}
	static Result call(Parameters... parameters) { return watched_call<verb, how>(run, parameters...); }
};

template <auto verb, Reports how, class Result, class... Parameters>
struct Guard<verb, how, Result (*)(engine::BlockingCall&, Parameters...)> {
	// One stretch of the verb between two sleeps. In a function of its own, because the one that
	// sleeps must have no destructors.
	[[gnu::noinline]] static Result stretch(engine::BlockingCall& blocking, Parameters... parameters) {
		return engine::bounded(
			public_name<verb>.data(), [&] { return verb(blocking, parameters...); }, failure<how, Result>);
	}
	static Result call(Parameters... parameters) { return watched_call<verb, how>(run, parameters...); }
	static Result run(Parameters... parameters) {
		return engine::sleeping([&](engine::BlockingCall& blocking) { return stretch(blocking, parameters...); });
	}
};

// A function with the parameters of `verb`, without the BlockingCall of a verb that may sleep.
template <auto verb, Reports how = Reports::errno_value> inline constexpr auto guarded = Guard<verb, how>::call;

}  // namespace verbena::verbs
