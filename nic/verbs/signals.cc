// Interposed signal functions of libc. A program that installs its own handler for SIGSEGV or
// SIGBUS, or blocks every signal in a thread, must not disable the handler that guards copies to
// its registered memory (engine/fault_handler.h).
//
// Threads: any, also from signal handlers.
// Errors: calls for other signals go to libc's functions unchanged.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "nic/engine/fault_handler.h"

namespace {

// Looks a function up before the program runs: signal handlers may call these functions, but must
// not call dlsym.
template <class Function> Function* next(const char* name) {
	return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

auto real_signal() {
	static auto* const function = next<decltype(::signal)>("signal");
	return function;
}
auto real_sigprocmask() {
	static auto* const function = next<decltype(::sigprocmask)>("sigprocmask");
	return function;
}
auto real_pthread_sigmask() {
	static auto* const function = next<decltype(::pthread_sigmask)>("pthread_sigmask");
	return function;
}

[[gnu::constructor]] void resolve_early() {
	real_signal();
	real_sigprocmask();
	real_pthread_sigmask();
}

// A copy of `set` without SIGSEGV and SIGBUS, if the call would block them; otherwise `set` itself.
class Mask {
public:
	Mask(int how, const sigset_t* set) : set_(set) {
		if (!set || how == SIG_UNBLOCK) return;
		stripped_ = *set;
		verbena::engine::strip(&stripped_);
		set_ = &stripped_;
	}
	const sigset_t* get() const { return set_; }

private:
	const sigset_t* set_;
	sigset_t stripped_;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) noexcept {
	return verbena::engine::program_sigaction(signal_number, action, old);
}

sighandler_t signal(int signal_number, sighandler_t handler) noexcept {
	if ((signal_number != SIGSEGV && signal_number != SIGBUS) || handler == SIG_ERR)
		return real_signal()(signal_number, handler);
	struct sigaction action{}, old;
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART;  // as signal(2) of libc does
	sigaddset(&action.sa_mask, signal_number);
	return verbena::engine::program_sigaction(signal_number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
	return real_sigprocmask()(how, Mask(how, set).get(), old);
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
	return real_pthread_sigmask()(how, Mask(how, set).get(), old);
}

}  // extern "C"
#pragma GCC visibility pop
