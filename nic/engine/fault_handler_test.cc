// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/fault_handler.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <thread>

#include "nic/memory/guarded_copy.h"

// Each test runs in a child process, because the handler can never be removed. The result is the
// child's exit status (0: passed) or the signal that killed it.
namespace verbena::engine {
namespace {

void* const nowhere = reinterpret_cast<void*>(0x1000);

template <class Body> int status_of_child(Body body) {
	const pid_t child = fork();
	if (child == 0) {
		const rlimit none{0, 0};
		setrlimit(RLIMIT_CORE, &none);
		// A sanitizer or a test runner may have handlers of its own.
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
		alarm(20);
		_exit(body() ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	return status;
}

#define EXPECT_GOOD(status) EXPECT_EQ(status, 0)
#define EXPECT_KILLED_BY(signal_number, status)     \
	do {                                            \
		const int waited = (status);                \
		EXPECT_TRUE(WIFSIGNALED(waited));           \
		EXPECT_EQ(WTERMSIG(waited), signal_number); \
	} while (false)

bool guarded_fault_survives() {
	char byte;
	return !memory::guarded_copy(&byte, nowhere, 1);
}

void fault() { *static_cast<volatile char*>(nowhere) = 1; }

struct sigaction action_of(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
	struct sigaction action{};
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | flags;
	return action;
}

// The arguments and the mask that a program's handler saw.
volatile int seen;
volatile int seen_code;
void* volatile seen_address;
volatile bool seen_other_blocked, seen_self_blocked;
sigjmp_buf back;

void note_and_jump(int signal_number, siginfo_t* info, void*) {
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, nullptr, &mask);
	seen_self_blocked = sigismember(&mask, signal_number);
	seen_other_blocked = sigismember(&mask, SIGUSR1);
	seen = seen + 1;
	seen_code = info->si_code;
	seen_address = info->si_addr;
	siglongjmp(back, 1);
}

void note(int, siginfo_t* info, void*) {
	seen = seen + 1;
	seen_code = info->si_code;
}

void* page_that_opens = nullptr;

TEST(FaultHandler, AnAccessIsTriedAgainIfTheHookSaysSo) {
	EXPECT_GOOD(status_of_child([] {
		page_that_opens = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		retry_faults_if([](const void* address) {
			return address == page_that_opens && mprotect(page_that_opens, 4096, PROT_READ | PROT_WRITE) == 0;
		});
		install_fault_handler();
		*static_cast<volatile char*>(page_that_opens) = 1;
		return true;
	}));
}

TEST(FaultHandler, AGuardedFaultSurvivesAndChangesNoErrno) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		errno = 77;
		return guarded_fault_survives() && guarded_fault_survives() && errno == 77;
	}));
}

TEST(FaultHandler, AGuardedFaultSurvivesInEveryThread) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		bool one = false, two = false;
		std::thread a([&] {
			for (int i = 0; i < 1000; ++i) one = guarded_fault_survives();
		});
		std::thread b([&] {
			for (int i = 0; i < 1000; ++i) two = guarded_fault_survives();
		});
		a.join();
		b.join();
		return one && two;
	}));
}

TEST(FaultHandler, AGuardedBusErrorSurvives) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		const int file = memfd_create("test", 0);  // empty: every page lies behind its end
		void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
		char byte;
		return !memory::guarded_copy(&byte, page, 1);
	}));
}

TEST(FaultHandler, AnUnhandledFaultKillsWithItsOwnSignal) {
	EXPECT_KILLED_BY(SIGSEGV, status_of_child([] {
		install_fault_handler();
		fault();
		return true;
	}));
	EXPECT_KILLED_BY(SIGBUS, status_of_child([] {
		install_fault_handler();
		const int file = memfd_create("test", 0);
		return *static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0)) == 0;
	}));
}

TEST(FaultHandler, ASignalThatAnotherProcessSentKillsToo) {
	EXPECT_KILLED_BY(SIGSEGV, status_of_child([] {
		install_fault_handler();
		raise(SIGSEGV);
		return true;
	}));
}

TEST(FaultHandler, TheProgramsHandlerFromBeforeStillRunsWithTheRightSiginfo) {
	EXPECT_GOOD(status_of_child([] {
		const auto action = action_of(note_and_jump);
		sigaction(SIGSEGV, &action, nullptr);
		install_fault_handler();
		if (sigsetjmp(back, 1) == 0) fault();
		return seen == 1 && seen_code == SEGV_MAPERR && seen_address == nowhere && guarded_fault_survives() &&
			seen == 1;
	}));
}

TEST(FaultHandler, AHandlerInstalledLaterRunsAndOursStaysFirst) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		struct sigaction action = action_of(note_and_jump), old = action;
		sigaddset(&action.sa_mask, SIGUSR1);
		if (program_sigaction(SIGSEGV, &action, &old) != 0 || old.sa_handler != SIG_DFL) return false;
		for (int i = 1; i <= 3; ++i) {
			if (sigsetjmp(back, 1) == 0) fault();
			if (seen != i || !guarded_fault_survives() || seen != i) return false;
		}
		return seen_self_blocked && seen_other_blocked && program_sigaction(SIGSEGV, nullptr, &old) == 0 &&
			old.sa_sigaction == note_and_jump && old.sa_flags == action.sa_flags && sigismember(&old.sa_mask, SIGUSR1);
	}));
}

TEST(FaultHandler, AHandlerWithoutSiginfoRuns) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		struct sigaction action{};
		action.sa_handler = [](int signal_number) {
			seen = signal_number;
			siglongjmp(back, 1);
		};
		program_sigaction(SIGSEGV, &action, nullptr);
		if (sigsetjmp(back, 1) == 0) fault();
		return seen == SIGSEGV;
	}));
}

TEST(FaultHandler, AOneShotHandlerRunsOnceAndTheNextFaultKills) {
	EXPECT_KILLED_BY(SIGSEGV, status_of_child([] {
		install_fault_handler();
		const auto action = action_of(note_and_jump, static_cast<int>(SA_RESETHAND));
		program_sigaction(SIGSEGV, &action, nullptr);
		if (sigsetjmp(back, 1) == 0) fault();
		if (seen != 1 || !guarded_fault_survives()) return false;
		fault();
		return true;
	}));
}

TEST(FaultHandler, AHandlerThatFaultsItselfIsKilledAndNotRunAgain) {
	EXPECT_KILLED_BY(SIGSEGV, status_of_child([] {
		install_fault_handler();
		const auto action = action_of([](int, siginfo_t*, void*) {
			if (seen) _exit(2);
			seen = 1;
			fault();
		});
		program_sigaction(SIGSEGV, &action, nullptr);
		fault();
		return true;
	}));
}

TEST(FaultHandler, IgnoringStopsWhatWasSentButNotARealFault) {
	EXPECT_KILLED_BY(SIGSEGV, status_of_child([] {
		install_fault_handler();
		struct sigaction ignore{};
		ignore.sa_handler = SIG_IGN;
		program_sigaction(SIGSEGV, &ignore, nullptr);
		raise(SIGSEGV);
		if (!guarded_fault_survives()) return false;
		fault();
		return true;
	}));
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		struct sigaction ignore{};
		ignore.sa_handler = SIG_IGN;
		program_sigaction(SIGBUS, &ignore, nullptr);
		raise(SIGBUS);
		return true;
	}));
}

TEST(FaultHandler, AProgramsHandlerOnItsAlternateStackSurvivesAStackOverflow) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		static char stack_memory[65536];
		const stack_t stack{stack_memory, 0, sizeof stack_memory};
		sigaltstack(&stack, nullptr);
		const auto action = action_of(note_and_jump, SA_ONSTACK);
		program_sigaction(SIGSEGV, &action, nullptr);
		struct Deep {
			static int down(int levels) {
				volatile char frame[4096];
				frame[0] = 1;
				return levels == 0 ? 0 : down(levels - 1) + frame[0];
			}
		};
		const rlimit small{256 * 1024, RLIM_INFINITY};
		setrlimit(RLIMIT_STACK, &small);
		if (sigsetjmp(back, 1) == 0) return Deep::down(1'000'000) == 0;
		return seen == 1 && guarded_fault_survives();
	}));
}

TEST(FaultHandler, AnotherSignalsActionIsTheKernels) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		const auto action = action_of(note);
		struct sigaction kernels{};
		if (program_sigaction(SIGUSR1, &action, nullptr) != 0) return false;
		sigaction(SIGUSR1, nullptr, &kernels);
		raise(SIGUSR1);
		return seen == 1 && kernels.sa_sigaction == note && program_sigaction(12345, &action, nullptr) == -1 &&
			errno == EINVAL;
	}));
}

TEST(FaultHandler, StripKeepsBothUnblockedAndInstallingUnblocksThem) {
	EXPECT_GOOD(status_of_child([] {
		sigset_t all, now;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, nullptr);
		install_fault_handler();
		pthread_sigmask(SIG_SETMASK, nullptr, &now);
		if (sigismember(&now, SIGSEGV) || sigismember(&now, SIGBUS) || !sigismember(&now, SIGUSR1)) return false;
		strip(&all);
		pthread_sigmask(SIG_SETMASK, &all, nullptr);
		return guarded_fault_survives();
	}));
}

// The instructions INT1 and INT3: the first stands for a trap that came by mistake.
bool is_int1(const siginfo_t& info, const ucontext_t&) { return info.si_code == TRAP_BRKPT; }
void int1() { asm volatile(".byte 0xf1"); }
void int3() { asm volatile("int3"); }

TEST(FaultHandler, ATrapByMistakeIsIgnored) {
	EXPECT_GOOD(status_of_child([] {
		sigset_t all, now;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, nullptr);
		install_fault_handler();
		ignore_traps_if(is_int1);
		int1();
		strip(&all);
		pthread_sigmask(SIG_SETMASK, &all, &now);
		int1();
		return !sigismember(&now, SIGTRAP) && guarded_fault_survives();
	}));
}

TEST(FaultHandler, AnotherTrapIsTheProgramsOwn) {
	EXPECT_KILLED_BY(SIGTRAP, status_of_child([] {
		install_fault_handler();
		ignore_traps_if(is_int1);
		int3();
		return true;
	}));
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		auto action = action_of(note);
		sigaction(SIGTRAP, &action, nullptr);
		ignore_traps_if(is_int1);
		int3();
		int1();
		const bool before = seen == 1 && seen_code == SI_KERNEL;
		struct sigaction old{};
		program_sigaction(SIGTRAP, &action, &old);
		int3();
		int1();
		raise(SIGTRAP);
		return before && old.sa_sigaction == note && seen == 3;
	}));
}

TEST(FaultHandler, WithoutThatFunctionTrapsDoNotConcernIt) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		const auto action = action_of(note);
		struct sigaction kernels{};
		program_sigaction(SIGTRAP, &action, nullptr);
		sigaction(SIGTRAP, nullptr, &kernels);
		sigset_t set;
		sigfillset(&set);
		strip(&set);
		return kernels.sa_sigaction == note && sigismember(&set, SIGTRAP) == 1;
	}));
}

TEST(FaultHandler, AForkedChildStillSurvives) {
	EXPECT_GOOD(status_of_child([] {
		install_fault_handler();
		const pid_t child = fork();
		if (child == 0) _exit(guarded_fault_survives() ? 0 : 1);
		int status = -1;
		return waitpid(child, &status, 0) == child && status == 0;
	}));
}

}  // namespace
}  // namespace verbena::engine
