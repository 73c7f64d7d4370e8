// SPDX-License-Identifier: Apache-2.0
// The part of Handle that does many operations at once: kv_submit(), kv_wait(), kv_do(), kv_fd().
#include <algorithm>

#include "lib/kv/handle.h"

namespace verbena::kv {
namespace {

Submission::Request request_of(const kv_op& op) {
	Submission::Request request{.kind = op.kind == KV_OP_GET ? Call::Kind::get
			: op.kind == KV_OP_SET                           ? Call::Kind::set
															 : Call::Kind::remove,
		.key = {static_cast<const char*>(op.key), op.key_length},
		.versioned = (op.flags & KV_OP_VERSION) != 0};
	if (op.kind == KV_OP_SET) request.value = bytes_of(std::string_view(op.value, op.value_length));
	request.options.ttl_ms = op.ttl_ms;
	if (request.versioned && op.kind != KV_OP_GET) request.expected = op.version;
	return request;
}

}  // namespace

// Begins an operation as a part of the batch; one that is no operation is done at once.
void Handle::begin(kv_op& op, const char* fault, Batch& batch) {
	if (fault != nullptr) return batch.refuse(pool_.make(*router, {}, &op), fault);
	if (op.kind == KV_OP_SCAN) return begin_page(op, batch);
	Submission::Request request = request_of(op);
	const Nanoseconds by = deadline();
	wait_for(request.key);
	request.place = place_of(request.value);
	Submission& operation = pool_.make(*router, std::move(request), &op);
	operation.by(by);
	batch.begin(operation);
}

void Handle::begin_page(kv_op& op, Batch& batch) {
	const std::string_view prefix(static_cast<const char*>(op.key), op.key_length);
	Submission& operation = pool_.make(*router, page_request(*op.cursor, prefix, 0), &op);
	if (operation.server.empty()) return batch.refuse(operation, nullptr);
	batch.begin(operation);
}

// Fills in the results of a SCAN.
void Handle::finish_page(kv_op& op, Submission& operation) {
	kv_key* keys = nullptr;
	const Result<void> done = operation.outcome();
	op.value_length = 0;
	op.result = done ? take_page(operation, *op.cursor, &keys, &op.value_length) : fail_page(operation, done.error());
	op.value = reinterpret_cast<char*>(keys);
}

// Fills in the results, and frees the operation.
kv_op* Handle::finish(Submission& operation) {
	kv_op& op = *operation.op;
	if (op.kind == KV_OP_GET) {
		op.value = nullptr;
		op.value_length = 0;
	}
	if (operation.refused != nullptr) {
		op.result = KV_INVALID;
		last_error = operation.refused;
	} else if (operation.scans()) {
		finish_page(op, operation);
	} else if (const Result<void> done = operation.outcome(); done) {
		if (operation.versioned()) op.version = operation.version();
		op.result = operation.gets() ? take_value(operation, &op.value, &op.value_length) : int{KV_OK};
	} else {
		if (operation.versioned() && operation.gets()) op.version = 0;
		if (done.error() == Error::changed) op.version = operation.version();
		// A key that is missing is no failure, so it leaves the last error as it is.
		op.result = done.error() == Error::missing ? int{KV_MISSING} : fail(done.error(), operation.key());
	}
	pool_.free(operation);
	return &op;
}

int Handle::submit(const Ops& ops) {
	int taken = 0;
	for (; taken < ops.count && submitted_.size() < operations_max; ++taken)
		begin(ops[taken], ops.fault_of(taken), submitted_);
	// The requests of a batch leave at the end of this turn. A single one waits for the next call
	// on the handle, so that ops which are submitted one by one leave together.
	if (taken > 1) loop().run_turn();
	return taken;
}

int Handle::wait(kv_op** done, int max, int min, int timeout_ms) {
	const auto wanted = static_cast<std::size_t>(std::min(min, max));
	const auto enough = [&] { return submitted_.ready() >= wanted || submitted_.under_way() == 0; };
	run_until(enough, wanted == 0 ? 0 : timeout_ms);
	int count = 0;
	while (count < max) {
		Submission* const operation = submitted_.take();
		if (operation == nullptr) break;
		done[count++] = finish(*operation);
	}
	return count;
}

// The ops are a batch of their own, which kv_wait() does not see.
int Handle::do_all(const Ops& ops) {
	int result = KV_OK;
	for (int i = 0; i < ops.count;) {
		Batch batch;
		for (; i < ops.count && batch.size() < operations_max; ++i) begin(ops[i], ops.fault_of(i), batch);
		loop().run_until([&] { return batch.under_way() == 0; });
		while (Submission* const operation = batch.take())
			if (const int each = finish(*operation)->result; each != KV_OK && each != KV_MISSING) result = each;
	}
	return result;
}

int Handle::descriptor() {
	const int descriptor = loop().descriptor();
	if (descriptor < 0) {
		last_error = "this process has no descriptor left";
		return KV_NO_MEMORY;
	}
	watched_ = true;
	return descriptor;
}

}  // namespace verbena::kv
