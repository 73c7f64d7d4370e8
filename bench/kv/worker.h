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
	// `one_sided`: cells of that kind come too.
	Worker(kv::Session& session, bool one_sided) : session_(session), one_sided_(one_sided) {}

	Run run(const Cell& cell);
	// Of all runs, with warm-up and preparation: what the server must have counted too.
	std::uint64_t operations() const;

private:
	kv::Session& session_;
	bool one_sided_;
	std::vector<std::unique_ptr<kv::Client>> clients_;
};

}  // namespace verbena::kvbench
