// The measured loop: one run of a cell, on clients of one thread.
#pragma once

#include <memory>
#include <vector>

#include "bench/kv/cell.h"
#include "lib/kv/session.h"

namespace verbena::kvbench {

class Worker {
public:
	// `session` outlives it. Connects as many clients as any cell has.
	explicit Worker(kv::Session& session) : session_(session) {}

	Run run(const Cell& cell);
	// Of all runs, with warm-up and preparation: what the server must have counted too.
	std::uint64_t operations() const;

private:
	kv::Session& session_;
	std::vector<std::unique_ptr<kv::Client>> clients_;
};

}  // namespace verbena::kvbench
