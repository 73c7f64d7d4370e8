// SPDX-License-Identifier: Apache-2.0
// Interposed signal functions of libc. A program that installs its own handler for SIGSEGV or
// SIGBUS, or blocks every signal in a thread, must not disable the handler that guards copies to
// its registered memory (engine/fault_handler.h, which may guard SIGTRAP too).
//
// libc's functions call each other inside libc, where no interposer sees it, so each name that a
// program can use is here: signal() is __sysv_signal in a program compiled for strict POSIX. Two
// kinds of functions are left out: those that block signals only while they wait (sigsuspend,
// ppoll), and siginterrupt, which leaves the handler in place.
//
// Threads: any, also from signal handlers.
// Errors: calls for other signals go to libc's functions unchanged.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <initializer_list>

#include "nic/engine/fault_handler.h"

namespace {

using verbena::engine::is_guarded;

using Handler = void (*)(int);
using SetHandler = Handler(int, Handler) noexcept;
using OnSignal = int(int) noexcept;  // the argument is a signal or, in BSD's functions, a mask
using SetMask = int(int, const sigset_t*, sigset_t*) noexcept;
using SetAttributeMask = int(pthread_attr_t*, const sigset_t*);

// The functions behind ours, looked up before the program runs: signal handlers may call these
// functions, but must not call dlsym. A function that this libc lacks is null, and then no program
// calls it.
struct Next {
	template <class Function> static Function* find(const char* name) {
		return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
	}
	SetHandler* signal = find<SetHandler>("signal");
	SetHandler* sysv_signal = find<SetHandler>("__sysv_signal");
	SetHandler* sigset = find<SetHandler>("sigset");
	OnSignal* sigignore = find<OnSignal>("sigignore");
	OnSignal* sighold = find<OnSignal>("sighold");
	OnSignal* sigblock = find<OnSignal>("sigblock");
	OnSignal* sigsetmask = find<OnSignal>("sigsetmask");
	SetMask* sigprocmask = find<SetMask>("sigprocmask");
	SetMask* pthread_sigmask = find<SetMask>("pthread_sigmask");
	SetAttributeMask* pthread_attr_setsigmask_np = find<SetAttributeMask>("pthread_attr_setsigmask_np");
};

const Next& next() {
	static const Next functions;
	return functions;
}

[[gnu::constructor]] void resolve_early() { next(); }

// A mask of BSD's functions without the guarded signals; it has one bit for each of the first 32.
int without_guarded(int mask) {
	for (const int each : {SIGSEGV, SIGBUS, SIGTRAP})
		if (is_guarded(each)) mask &= ~(1 << (each - 1));
	return mask;
}

// sigaction() with the flags by which one of the older functions differs from the others.
Handler set_handler(int signal_number, Handler handler, int flags, bool blocked_in_handler) {
	struct sigaction action{}, old;
	action.sa_handler = handler;
	action.sa_flags = flags;
	if (blocked_in_handler) sigaddset(&action.sa_mask, signal_number);
	return verbena::engine::program_sigaction(signal_number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

// A copy of `set` without the guarded signals, if the call would block them; otherwise `set`
// itself.
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
[[gnu::alias("sigaction")]] int __sigaction(int, const struct sigaction*, struct sigaction*) noexcept;

Handler signal(int signal_number, Handler handler) noexcept {
	if (!is_guarded(signal_number) || handler == SIG_ERR) return next().signal(signal_number, handler);
	return set_handler(signal_number, handler, SA_RESTART, true);
}
[[gnu::alias("signal")]] Handler bsd_signal(int, Handler) noexcept;
[[gnu::alias("signal")]] Handler ssignal(int, Handler) noexcept;

Handler __sysv_signal(int signal_number, Handler handler) noexcept {
	if (!is_guarded(signal_number) || handler == SIG_ERR) return next().sysv_signal(signal_number, handler);
	return set_handler(signal_number, handler, SA_RESETHAND | SA_NODEFER, false);
}
[[gnu::alias("__sysv_signal")]] Handler sysv_signal(int, Handler) noexcept;

Handler sigset(int signal_number, Handler handler) noexcept {
	if (!is_guarded(signal_number) || handler == SIG_ERR) return next().sigset(signal_number, handler);
	if (handler != SIG_HOLD) return set_handler(signal_number, handler, 0, false);
	struct sigaction old;  // SIG_HOLD asks for a blocked signal, and leaves its action as it is
	verbena::engine::program_sigaction(signal_number, nullptr, &old);
	return old.sa_handler;
}

int sigignore(int signal_number) noexcept {
	if (!is_guarded(signal_number)) return next().sigignore(signal_number);
	return set_handler(signal_number, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

int sighold(int signal_number) noexcept { return is_guarded(signal_number) ? 0 : next().sighold(signal_number); }
int sigblock(int mask) noexcept { return next().sigblock(without_guarded(mask)); }
int sigsetmask(int mask) noexcept { return next().sigsetmask(without_guarded(mask)); }

int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
	return next().sigprocmask(how, Mask(how, set).get(), old);
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
	return next().pthread_sigmask(how, Mask(how, set).get(), old);
}

// The mask with which threads start that are made with this attribute.
int pthread_attr_setsigmask_np(pthread_attr_t* attribute, const sigset_t* set) {
	return next().pthread_attr_setsigmask_np(attribute, Mask(SIG_SETMASK, set).get());
}

}  // extern "C"
#pragma GCC visibility pop
