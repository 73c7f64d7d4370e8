// The measured loop: one run of a cell, on clients of one thread.
#pragma once

#include <memory>
#include <vector>

#include "bench/kv/cell.h"
#include "lib/kv/session.h"

namespace verbena::kvbench {

struct WorkerOptions {
	bool one_sided = false;          // cells of that kind come too
	std::uint32_t first_client = 0;  // by whose numbers its keys are named: no two workers of one store share keys
};

class Worker {
public:
	// `session` outlives it. Connects as many clients as any cell has.
	Worker(kv::Session& session, const WorkerOptions& options) : session_(session), options_(options) {}

	Run run(const Cell& cell);
	// Of all runs, with warm-up and preparation: what the server must have counted too.
	std::uint64_t operations() const;

private:
	kv::Session& session_;
	WorkerOptions options_;
	std::uint64_t runs_ = 0;
	std::vector<std::unique_ptr<kv::Client>> clients_;
};

}  // namespace verbena::kvbench
