// SPDX-License-Identifier: Apache-2.0
// RivalServer: a server of another project (redis, memcached), which runs beside ours so that both
// are measured in the same sweep.
//
// Threads: one.
// Owns: the server's process and a temporary folder, and removes both. The kernel kills the process
//   if its parent dies.
// Errors: one sentence.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::bench {

class RivalServer {
public:
	enum class At : std::uint8_t { unix_socket, tcp };

	// Makes the folder, whose name contains `name`, and chooses a free port of 127.0.0.1.
	explicit RivalServer(std::string name);
	~RivalServer();
	RivalServer(const RivalServer&) = delete;
	RivalServer& operator=(const RivalServer&) = delete;

	const std::string& name() const { return name_; }
	const std::string& folder() const { return folder_; }
	std::string socket() const { return folder_ + "/socket"; }
	std::uint16_t port() const { return port_; }

	// Starts the server and waits until it accepts connections there. Fails if it ended before, or
	// did not within 10 s.
	std::expected<void, std::string> start(std::vector<std::string> command, At at);
	// Returns a connected descriptor, which the caller owns, or -1.
	int connect(At at) const;

private:
	std::string name_, folder_;
	std::uint16_t port_ = 0;
	pid_t pid_ = 0;
};

bool is_on_path(std::string_view program);

}  // namespace verbena::bench
