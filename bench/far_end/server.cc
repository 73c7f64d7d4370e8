// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "bench/far_end/failure.h"
#include "lib/verbs/objects.h"

namespace verbena::bench {
namespace {

int without_exec(int fd) {
	signal(SIGINT, SIG_IGN);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

}  // namespace

InheritedEnds::InheritedEnds() : control(without_exec(control_fd_of_child)), page(RoundTrip::open(page_fd_of_child)) {}

OwnServer::OwnServer(const std::vector<std::string>& arguments)
	: OwnServer(arguments, [] {
		  int ends[2];
		  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
			  throw Failure(lib::failure("socketpair", errno));
		  return Ends{ends[0], ends[1]};
	  }()) {}

OwnServer::OwnServer(const std::vector<std::string>& arguments, Ends ends)
	: page_(RoundTrip::create()), control_(ends.mine), process_(own_executable(), arguments, ends.theirs, page_.fd()) {
	close(ends.theirs);
}

void serve_clients(int listener, bool once, const std::function<void(Control&)>& serve,
	const std::function<void(const std::string&)>& complain) {
	for (;;) {
		try {
			Control control(accept_one(listener));
			serve(control);
		} catch (const Failure& failure) {
			complain(failure.what());
		}
		if (once) break;
	}
	close(listener);
}

}  // namespace verbena::bench
