// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/fault_handler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <source_location>

#include "base/check.h"
#include "base/spin_lock.h"
#include "nic/memory/guarded_copy.h"

namespace verbena::engine {

namespace {

using SigactionFunction = int(int, const struct sigaction*, struct sigaction*);

// The next `sigaction` after ours in the search order: a sanitizer's, or libc's. libc may also come
// before us, if the program was linked to our library through another one.
SigactionFunction* find_next() {
	void* next = dlsym(RTLD_NEXT, "sigaction");
	if (next == nullptr)
		if (void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD)) next = dlsym(libc, "sigaction");
	return reinterpret_cast<SigactionFunction*>(next);
}

// Not a plain call to sigaction(), which would return to our own interposer. The thread sanitizer
// calls us while it starts, when it cannot serve the guard of a static variable yet.
int real_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) {
	static constinit std::atomic<SigactionFunction*> known{nullptr};
	SigactionFunction* next = known.load(std::memory_order_relaxed);
	if (next == nullptr) {
		next = find_next();
		if (next == nullptr) check_failed("no sigaction in this process", std::source_location::current());
		known.store(next, std::memory_order_relaxed);
	}
	return next(signal_number, action, old);
}

// Resolved before the program runs, because dlsym() is not async-signal-safe.
[[gnu::constructor]] void resolve_early() { real_sigaction(SIGSEGV, nullptr, nullptr); }

std::atomic<bool (*)(const void*)> may_retry{nullptr};
// Null: SIGTRAP is not guarded.
std::atomic<bool (*)(const siginfo_t&, const ucontext_t&)> trap_is_mistake{nullptr};

struct State {
	SpinLock lock;
	std::atomic<bool> installed = false;
	struct sigaction segv, bus, trap;  // the program's; under the lock

	struct sigaction& program(int signal_number) {
		return signal_number == SIGSEGV ? segv : signal_number == SIGBUS ? bus : trap;
	}
};
constinit State state{};

// Holds the lock with every signal blocked, so that a handler on this thread can neither wait for
// the lock nor see half an action.
class Guard {
public:
	Guard() {
		const std::uint64_t all = ~std::uint64_t{0};
		// The system call itself, because our interposer of pthread_sigmask() would leave SIGSEGV
		// and SIGBUS out.
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
		state.lock.lock();
	}
	~Guard() {
		state.lock.unlock();
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
	}
	Guard(const Guard&) = delete;
	Guard& operator=(const Guard&) = delete;

private:
	std::uint64_t before_ = 0;
};

void on_fault(int signal_number, siginfo_t* info, void* context);

// Installs our handler with the mask, stack and flags of the program's action, so that the
// program's handler runs under exactly these. If the program has no handler, an alternate stack
// does no harm and lets a stack overflow die with a core dump.
void install_for(int signal_number, const struct sigaction& program) {
	struct sigaction ours = program;
	const bool has_handler = program.sa_handler != SIG_DFL && program.sa_handler != SIG_IGN;
	ours.sa_sigaction = on_fault;
	ours.sa_flags = has_handler ? program.sa_flags & ~SA_RESETHAND : SA_ONSTACK | SA_RESTART;
	ours.sa_flags |= SA_SIGINFO;
	real_sigaction(signal_number, &ours, nullptr);
}

// The signal was sent by a process rather than raised by an instruction. A memory error that no
// instruction has touched yet counts as sent, because no instruction would raise it again on
// return.
bool was_sent(const siginfo_t& info) {
	return info.si_code <= 0 || (info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

void die_of(int signal_number, siginfo_t* info) {
	struct sigaction fatal{};
	fatal.sa_handler = SIG_DFL;
	real_sigaction(signal_number, &fatal, nullptr);
	// The signal stays pending until our handler returns, so the dump shows the faulting
	// instruction and the original siginfo. If rt_sigqueueinfo fails, a real fault happens again at
	// once.
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal_number, info);
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
	const auto* const interrupted = static_cast<const ucontext_t*>(context);
	if (signal_number == SIGTRAP && trap_is_mistake.load(std::memory_order_acquire)(*info, *interrupted)) return;
	if (signal_number == SIGSEGV && info->si_code == SEGV_ACCERR)
		if (auto* const retry = may_retry.load(std::memory_order_acquire); retry != nullptr && retry(info->si_addr))
			return;
	if (signal_number != SIGTRAP && !was_sent(*info) && memory::redirect_if_guarded(static_cast<ucontext_t*>(context)))
		return;

	const int saved_errno = errno;
	struct sigaction program;
	{
		Guard guard;
		program = state.program(signal_number);
		if (program.sa_flags & SA_RESETHAND && program.sa_handler != SIG_IGN) {
			state.program(signal_number) = {};
			install_for(signal_number, state.program(signal_number));
		}
	}
	errno = saved_errno;
	if (program.sa_handler == SIG_IGN && was_sent(*info)) return;
	if (program.sa_handler == SIG_IGN || program.sa_handler == SIG_DFL) return die_of(signal_number, info);
	if (program.sa_flags & SA_SIGINFO) program.sa_sigaction(signal_number, info, context);
	else program.sa_handler(signal_number);
}

// The program's action becomes one that our handler calls. Under the lock.
void take_over(int signal_number) {
	real_sigaction(signal_number, nullptr, &state.program(signal_number));
	install_for(signal_number, state.program(signal_number));
}

void unblock(std::initializer_list<int> signals) {
	std::uint64_t set = 0;
	for (const int each : signals) set |= std::uint64_t{1} << (each - 1);
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, nullptr, sizeof set);
}

}  // namespace

void retry_faults_if(bool (*retry)(const void* address)) { may_retry.store(retry, std::memory_order_release); }

void ignore_traps_if(bool (*is_mistake)(const siginfo_t&, const ucontext_t&)) {
	{
		Guard guard;
		const bool first = trap_is_mistake.exchange(is_mistake, std::memory_order_acq_rel) == nullptr;
		if (first) take_over(SIGTRAP);
	}
	unblock({SIGTRAP});
}

bool is_guarded(int signal_number) {
	if (signal_number == SIGTRAP) return trap_is_mistake.load(std::memory_order_acquire) != nullptr;
	return signal_number == SIGSEGV || signal_number == SIGBUS;
}

void install_fault_handler() {
	static std::once_flag once;
	std::call_once(once, [] {
		// A fork's child must not inherit a lock that another thread held. Taking the lock before
		// the fork could deadlock with a signal handler of the forking thread.
		pthread_atfork(nullptr, nullptr, [] { state.lock.unlock(); });
		Guard guard;
		for (const int signal_number : {SIGSEGV, SIGBUS}) take_over(signal_number);
		state.installed.store(true, std::memory_order_release);
	});
	unblock({SIGSEGV, SIGBUS});
}

int program_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) {
	if (!is_guarded(signal_number) || !state.installed.load(std::memory_order_acquire))
		return real_sigaction(signal_number, action, old);
	struct sigaction next{}, previous;
	if (action) next = *action;  // before the lock is held, because the program's pointer may fault
	{
		Guard guard;
		previous = state.program(signal_number);
		if (action) {
			state.program(signal_number) = next;
			install_for(signal_number, next);
		}
	}
	if (old) *old = previous;
	return 0;
}

void strip(sigset_t* set) {
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	if (is_guarded(SIGTRAP)) sigdelset(set, SIGTRAP);
}

}  // namespace verbena::engine
