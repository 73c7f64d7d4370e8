// SPDX-License-Identifier: Apache-2.0
// The far end of a measurement as a server: a second process of this host, or one that clients on
// other hosts connect to.
//
// Threads: one thread in each process.
// Errors: Failure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/far_end/control.h"
#include "bench/far_end/launch.h"
#include "bench/far_end/round_trip.h"

namespace verbena::bench {

// The two ends of the second process, as that process has them.
struct InheritedEnds {
	Control control;
	RoundTrip page;

	// Call at the start of the process. It ignores Ctrl-C: the client gets it as well, and ends the
	// repetition that runs.
	InheritedEnds();
};

// This program, started again as the server of this process.
//
// Owns: the process, which ends with the object.
class OwnServer {
public:
	// `arguments` are those of the program, without argv[0]. Call before any verbs call.
	explicit OwnServer(const std::vector<std::string>& arguments);

	Control& control() { return control_; }
	RoundTrip& page() { return page_; }

private:
	struct Ends {
		int mine, theirs;
	};
	OwnServer(const std::vector<std::string>& arguments, Ends ends);

	RoundTrip page_;
	Control control_;
	ChildProcess process_;
};

// Accepts clients of other hosts at the listener, one after the other; closes the listener after
// the first one if `once`. A Failure of `serve` ends one client; it is passed to `complain`.
void serve_clients(int listener, bool once, const std::function<void(Control&)>& serve,
	const std::function<void(const std::string&)>& complain);

}  // namespace verbena::bench
