// The program's signal functions, taken over for the sake of SIGSEGV and SIGBUS alone (engine/fault_handler.h): a
// program that installs its own handler, or blocks every signal in a thread, must not take the guard away from its
// registered memory.
//
// Exported without versions, like everything here. Every other signal goes to the real functions unchanged.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>

#include "nic/engine/fault_handler.h"

namespace {

// Resolved before the program runs, because all of these may be called from signal handlers, and dlsym may not.
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

// `set` without SEGV and BUS where it would block them.
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
	action.sa_flags = SA_RESTART;  // as libc's signal()
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
