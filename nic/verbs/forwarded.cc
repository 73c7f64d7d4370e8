// SPDX-License-Identifier: Apache-2.0
// The exports that jump to the real library (forwarded_names.h). Their parameters differ between
// releases and some take variable arguments, so each is a jump that leaves all arguments where the
// caller put them. The first call of a function looks it up; two threads may do so at once, because
// both store the same address.
//
// Threads: any; also from constructors of libraries that the loader is about to load.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "nic/verbs/forwarded_names.h"
#include "nic/verbs/real_library.h"

namespace {

// One function of the table. The assembly code below defines these, so the order is fixed.
struct Forwarded {
	std::atomic<void*> target;  // null until the first call
	const char* name;
	long failure;
};
static_assert(sizeof(Forwarded) == 24 && std::atomic<void*>::is_always_lock_free);

template <long failure> long absent() {
	verbena::log::refuse(EOPNOTSUPP,
		"a function of libibverbs that this NIC lacks was called, and no real libibverbs that has it was found");
	return failure;
}

void* absent_function(long failure) {
	if (failure == 0) return reinterpret_cast<void*>(absent<0>);
	return reinterpret_cast<void*>(failure < 0 ? absent<-1> : absent<EOPNOTSUPP>);
}

bool is_set(const char* variable) {
	const char* const value = std::getenv(variable);
	return value && std::string_view(value) != "0";
}

}  // namespace

// Called by the assembly code: where the function is. Never null.
extern "C" [[gnu::visibility("hidden"), gnu::used]] void* verbena_resolve_forwarded(Forwarded* function) {
	const int saved_errno = errno;
	void* target = verbena::verbs::find_in_real_library(function->name);
	if (!target) target = absent_function(function->failure);
	function->target.store(target, std::memory_order_release);
	errno = saved_errno;
	return target;
}

extern "C" {
#pragma GCC visibility push(default)

// A variable that providers read: whether destroying an object succeeds after its device is gone.
// Where our library is in the global scope, the real library writes to this one. Elsewhere the two
// have their own, with the same value.
extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = is_set("RDMAV_ALLOW_DISASSOC_DESTROY") || is_set("MLX4_DEVICE_FATAL_CLEANUP");

// Does nothing in rdma-core either: libfabric's provider for usNIC calls it.
void ibv_register_driver(const char*, void*) {}

#pragma GCC visibility pop
}

// verbena_forward_first is entered by a jump from an export, with the address of its Forwarded in a
// register that no argument uses.
#if defined(__x86_64__)
asm(R"(
	.macro verbena_forward name, failure
	.section .rodata
.Lname_\name:
	.asciz "\name"
	.section .data.rel.local, "aw"
	.p2align 3
.Lforwarded_\name:
	.quad	0, .Lname_\name, \failure
	.text
	.p2align 4
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	endbr64
	mov	.Lforwarded_\name(%rip), %r11
	test	%r11, %r11
	jz	.Lfirst_\name
	jmp	*%r11
.Lfirst_\name:
	lea	.Lforwarded_\name(%rip), %r11
	jmp	verbena_forward_first
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	.p2align 4
	.type	verbena_forward_first, @function
verbena_forward_first:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$192, %rsp
	mov	%rdi, (%rsp)
	mov	%rsi, 8(%rsp)
	mov	%rdx, 16(%rsp)
	mov	%rcx, 24(%rsp)
	mov	%r8, 32(%rsp)
	mov	%r9, 40(%rsp)
	mov	%rax, 48(%rsp)
	movaps	%xmm0, 64(%rsp)
	movaps	%xmm1, 80(%rsp)
	movaps	%xmm2, 96(%rsp)
	movaps	%xmm3, 112(%rsp)
	movaps	%xmm4, 128(%rsp)
	movaps	%xmm5, 144(%rsp)
	movaps	%xmm6, 160(%rsp)
	movaps	%xmm7, 176(%rsp)
	mov	%r11, %rdi
	call	verbena_resolve_forwarded
	mov	%rax, %r11
	mov	(%rsp), %rdi
	mov	8(%rsp), %rsi
	mov	16(%rsp), %rdx
	mov	24(%rsp), %rcx
	mov	32(%rsp), %r8
	mov	40(%rsp), %r9
	mov	48(%rsp), %rax
	movaps	64(%rsp), %xmm0
	movaps	80(%rsp), %xmm1
	movaps	96(%rsp), %xmm2
	movaps	112(%rsp), %xmm3
	movaps	128(%rsp), %xmm4
	movaps	144(%rsp), %xmm5
	movaps	160(%rsp), %xmm6
	movaps	176(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	jmp	*%r11
	.cfi_endproc
	.size	verbena_forward_first, . - verbena_forward_first
)");
#elif defined(__aarch64__)
asm(R"(
	.macro verbena_forward name, failure
	.section .rodata
.Lname_\name:
	.asciz "\name"
	.section .data.rel.local, "aw"
	.p2align 3
.Lforwarded_\name:
	.quad	0, .Lname_\name, \failure
	.text
	.p2align 4
	.globl	\name
	.type	\name, %function
\name:
	.cfi_startproc
	hint	#34			// bti c
	adrp	x16, .Lforwarded_\name
	add	x16, x16, :lo12:.Lforwarded_\name
	ldr	x17, [x16]
	cbz	x17, .Lfirst_\name
	br	x17
.Lfirst_\name:
	b	verbena_forward_first
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	.p2align 4
	.type	verbena_forward_first, %function
verbena_forward_first:
	.cfi_startproc
	stp	x29, x30, [sp, #-224]!
	.cfi_def_cfa_offset 224
	.cfi_offset x29, -224
	.cfi_offset x30, -216
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	x0, x16
	bl	verbena_resolve_forwarded
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x29, x30, [sp], #224
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	br	x16
	.cfi_endproc
	.size	verbena_forward_first, . - verbena_forward_first
)");
#else
#error "forwarded: write the jump for this architecture"
#endif

#define VERBENA_TEXT(value) #value
#define VERBENA_FORWARD(name, failure) asm("verbena_forward " #name ", " VERBENA_TEXT(failure));
VERBENA_FORWARDED_FUNCTIONS(VERBENA_FORWARD)
