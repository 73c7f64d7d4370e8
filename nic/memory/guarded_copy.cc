// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/guarded_copy.h"

#include <utility>

#ifndef __x86_64__
#error \
	"guarded_copy: write the routines for this architecture (and a release fence before the last store, if it needs one)"
#endif

#pragma GCC visibility push(hidden)
extern "C" {
bool verbena_guarded_copy_avx2(void* to, const void* from, std::size_t n);
bool verbena_guarded_copy_sse2(void* to, const void* from, std::size_t n);
bool verbena_guarded_compare_swap(
	std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);
bool verbena_guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* original);
extern const char verbena_guarded_avx2_begin[], verbena_guarded_avx2_end[], verbena_guarded_avx2_fixup[];
extern const char verbena_guarded_begin[], verbena_guarded_end[], verbena_guarded_fixup[];
}
#pragma GCC visibility pop

// Up to 32 bytes, both vector widths use the same code: two stores that may overlap, the second of
// which ends at the last byte. Every store begins at or after the previous one, and begins
// 8-aligned unless it is the last; this keeps aligned words whole. No routine moves the stack
// pointer, so the fix-up code only returns false.
asm(R"(
	.text

	.macro verbena_function name
	.p2align 6
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.endm

	.macro verbena_label name
	.globl	\name
	.hidden	\name
\name:
	.endm

	.macro verbena_copy name, move, vector, width, leave
	verbena_function \name
	test	$7, %dil
	jnz	.Lunaligned_\@
.Laligned_\@:
	cmp	$32, %rdx
	ja	.Lvectors_\@
	cmp	$16, %rdx
	ja	.Lto32_\@
	cmp	$8, %rdx
	ja	.Lto16_\@
	je	.Lis8_\@
	cmp	$4, %rdx
	jae	.Lto7_\@
	cmp	$2, %rdx
	jae	.Lto3_\@
	test	%rdx, %rdx
	jz	.Ldone_\@
	movzbl	(%rsi), %eax
	mov	%al, (%rdi)
.Ldone_\@:
	mov	$1, %eax
	ret

.Lto3_\@:
	movzwl	(%rsi), %eax
	movzbl	-1(%rsi,%rdx), %ecx
	mov	%ax, (%rdi)
	je	.Ldone_\@
	mov	%cl, -1(%rdi,%rdx)
	jmp	.Ldone_\@

.Lto7_\@:
	mov	(%rsi), %eax
	mov	-4(%rsi,%rdx), %ecx
	mov	%eax, (%rdi)
	je	.Ldone_\@
	mov	%ecx, -4(%rdi,%rdx)
	mov	$1, %eax
	ret

.Lis8_\@:
	mov	(%rsi), %rax
	mov	%rax, (%rdi)
	mov	$1, %eax
	ret

.Lto16_\@:
	mov	(%rsi), %rax
	mov	-8(%rsi,%rdx), %rcx
	mov	%rax, (%rdi)
	mov	%rcx, -8(%rdi,%rdx)
	mov	$1, %eax
	ret

.Lto32_\@:
	\move	(%rsi), %xmm0
	\move	-16(%rsi,%rdx), %xmm1
	\move	%xmm0, (%rdi)
	\move	%xmm1, -16(%rdi,%rdx)
	mov	$1, %eax
	ret

	# Whole vectors for all but the last 1 to \width bytes, which one vector that ends at the last byte then covers.
	.p2align 4
.Lvectors_\@:
	lea	-1(%rdx), %r8
	and	$-\width, %r8
	xor	%ecx, %ecx
	lea	-4*\width(%r8), %r9
	test	%r9, %r9
	js	.Lone_\@
	.p2align 4
.Lfour_\@:
	\move	(%rsi,%rcx), \vector\()0
	\move	\width(%rsi,%rcx), \vector\()1
	\move	2*\width(%rsi,%rcx), \vector\()2
	\move	3*\width(%rsi,%rcx), \vector\()3
	\move	\vector\()0, (%rdi,%rcx)
	\move	\vector\()1, \width(%rdi,%rcx)
	\move	\vector\()2, 2*\width(%rdi,%rcx)
	\move	\vector\()3, 3*\width(%rdi,%rcx)
	add	$4*\width, %rcx
	cmp	%r9, %rcx
	jbe	.Lfour_\@
	cmp	%r8, %rcx
	jae	.Llast_\@
.Lone_\@:
	\move	(%rsi,%rcx), \vector\()0
	\move	\vector\()0, (%rdi,%rcx)
	add	$\width, %rcx
	cmp	%r8, %rcx
	jb	.Lone_\@
.Llast_\@:
	\move	-\width(%rsi,%rdx), \vector\()0
	\move	\vector\()0, -\width(%rdi,%rdx)
	\leave
	mov	$1, %eax
	ret

	# Single pieces up to an 8-aligned destination, or until what remains is smaller than the next piece.
.Lunaligned_\@:
	test	$1, %dil
	jz	.Leven_\@
	test	%rdx, %rdx
	jz	.Ldone_\@
	movzbl	(%rsi), %eax
	mov	%al, (%rdi)
	inc	%rdi
	inc	%rsi
	dec	%rdx
.Leven_\@:
	test	$2, %dil
	jz	.Lfourth_\@
	cmp	$2, %rdx
	jb	.Laligned_\@
	movzwl	(%rsi), %eax
	mov	%ax, (%rdi)
	add	$2, %rdi
	add	$2, %rsi
	sub	$2, %rdx
.Lfourth_\@:
	test	$4, %dil
	jz	.Laligned_\@
	cmp	$4, %rdx
	jb	.Laligned_\@
	mov	(%rsi), %eax
	mov	%eax, (%rdi)
	add	$4, %rdi
	add	$4, %rsi
	sub	$4, %rdx
	jmp	.Laligned_\@
	.cfi_endproc
	.size	\name, .-\name
	.endm

verbena_label verbena_guarded_avx2_begin
	verbena_copy verbena_guarded_copy_avx2, vmovdqu, %ymm, 32, vzeroupper
verbena_label verbena_guarded_avx2_end
verbena_label verbena_guarded_avx2_fixup
	.cfi_startproc
	vzeroupper
	xor	%eax, %eax
	ret
	.cfi_endproc

verbena_label verbena_guarded_begin
	verbena_copy verbena_guarded_copy_sse2, movdqu, %xmm, 16

	verbena_function verbena_guarded_compare_swap
	mov	%rsi, %rax
	lock cmpxchg %rdx, (%rdi)
	jmp	.Lverbena_result
	.cfi_endproc
	.size	verbena_guarded_compare_swap, .-verbena_guarded_compare_swap

	verbena_function verbena_guarded_fetch_add
	mov	%rdx, %rcx
	mov	%rsi, %rax
	lock xadd %rax, (%rdi)
	jmp	.Lverbena_result
	.cfi_endproc
	.size	verbena_guarded_fetch_add, .-verbena_guarded_fetch_add
verbena_label verbena_guarded_end

	# Outside the range: the caller's result is no application memory, and a fault there is our own bug.
	.cfi_startproc
.Lverbena_result:
	mov	%rax, (%rcx)
	mov	$1, %eax
	ret
verbena_label verbena_guarded_fixup
	xor	%eax, %eax
	ret
	.cfi_endproc

	.purgem verbena_copy
	.purgem verbena_label
	.purgem verbena_function
)");

namespace verbena::memory {

namespace detail {

// Initialized at compile time, so that a call from a constructor that runs before choose_copy()
// works too.
constinit CopyFunction* guarded_copy_chosen = verbena_guarded_copy_sse2;
static constinit auto* guarded_compare_swap_chosen = verbena_guarded_compare_swap;
static constinit auto* guarded_fetch_add_chosen = verbena_guarded_fetch_add;

[[gnu::constructor]] static void choose_copy() {
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2")) guarded_copy_chosen = verbena_guarded_copy_avx2;
}

}  // namespace detail

bool guarded_compare_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t& original) {
	return detail::guarded_compare_swap_chosen(at, compare, swap, &original);
}

bool guarded_fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t& original) {
	return detail::guarded_fetch_add_chosen(at, add, &original);
}

Routines replace_routines(const Routines& routines) {
	return {std::exchange(detail::guarded_copy_chosen, routines.copy),
		std::exchange(detail::guarded_compare_swap_chosen, routines.compare_swap),
		std::exchange(detail::guarded_fetch_add_chosen, routines.fetch_add)};
}

bool redirect_if_guarded(ucontext_t* context) {
	greg_t& counter = context->uc_mcontext.gregs[REG_RIP];
	const auto inside = [&](const char* begin, const char* end) {
		return counter >= reinterpret_cast<greg_t>(begin) && counter < reinterpret_cast<greg_t>(end);
	};
	if (inside(verbena_guarded_avx2_begin, verbena_guarded_avx2_end)) {
		counter = reinterpret_cast<greg_t>(verbena_guarded_avx2_fixup);
	} else if (inside(verbena_guarded_begin, verbena_guarded_end)) {
		counter = reinterpret_cast<greg_t>(verbena_guarded_fixup);
	} else {
		return false;
	}
	return true;
}

}  // namespace verbena::memory
