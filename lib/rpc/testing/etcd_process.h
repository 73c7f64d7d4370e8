// SPDX-License-Identifier: Apache-2.0
// EtcdProcess: a real etcd in a process of its own.
//
// Owns: the process, and its data folder, which the destructor removes.
// Errors: if etcd is not installed, until_it_listens() returns false.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace rpc_test {

class EtcdProcess {
public:
	EtcdProcess()
		: folder_(std::filesystem::temp_directory_path() / ("rpc-etcd-" + std::to_string(getpid()))),
		  port_(free_port()) {
		const std::string clients = "http://127.0.0.1:" + std::to_string(port_),
						  peers = "http://127.0.0.1:" + std::to_string(free_port());
		std::vector<std::string> words{"etcd", "--name", "one", "--data-dir", folder_.string(), "--listen-client-urls",
			clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls",
			peers, "--initial-cluster", "one=" + peers, "--log-level", "error", "--unsafe-no-fsync"};
		std::vector<char*> arguments;
		for (std::string& each : words) arguments.push_back(each.data());
		arguments.push_back(nullptr);
		if (posix_spawnp(&pid_, "etcd", nullptr, nullptr, arguments.data(), environ) != 0) pid_ = -1;
	}
	~EtcdProcess() {
		if (pid_ > 0) {
			kill(pid_, SIGKILL);
			waitpid(pid_, nullptr, 0);
		}
		std::filesystem::remove_all(folder_);
	}
	EtcdProcess(const EtcdProcess&) = delete;

	std::string prefix() const { return "etcd://127.0.0.1:" + std::to_string(port_) + "/rpc"; }
	// Waits up to 20 s. False: etcd does not listen, or is not installed.
	bool until_it_listens() const {
		const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
		while (pid_ > 0 && std::chrono::steady_clock::now() < deadline) {
			const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			const sockaddr_in where = address(port_);
			const bool listens = connect(probe, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
			close(probe);
			if (listens) return true;
			std::this_thread::sleep_for(std::chrono::milliseconds(10));  // between two attempts
		}
		return false;
	}

private:
	static sockaddr_in address(int port) {
		sockaddr_in where{};
		where.sin_family = AF_INET;
		where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		where.sin_port = htons(static_cast<std::uint16_t>(port));
		return where;
	}
	static int free_port() {
		const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		sockaddr_in where = address(0);
		socklen_t length = sizeof where;
		bind(probe, reinterpret_cast<const sockaddr*>(&where), length);
		getsockname(probe, reinterpret_cast<sockaddr*>(&where), &length);
		close(probe);
		return ntohs(where.sin_port);
	}
	std::filesystem::path folder_;
	int port_;
	pid_t pid_ = -1;
};

}  // namespace rpc_test
