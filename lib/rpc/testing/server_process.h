// SPDX-License-Identifier: Apache-2.0
// ServerProcess: rpc_test_server (server_main.cc) as a child process, which the destructor stops.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace rpc_test {

class ServerProcess {
public:
	ServerProcess(const std::string& threads, const std::string& transport, int port = 0) {
		int in[2], out[2];
		if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
		posix_spawn_file_actions_t actions;
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, in[0], 0);
		posix_spawn_file_actions_adddup2(&actions, out[1], 1);
		std::string program = RPC_TEST_SERVER, first = threads, second = transport, third = std::to_string(port);
		char* arguments[] = {program.data(), first.data(), second.data(), third.data(), nullptr};
		posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
		posix_spawn_file_actions_destroy(&actions);
		close(in[0]);
		close(out[1]);
		stdin_ = in[1];
		FILE* const words = fdopen(out[0], "r");
		if (std::fscanf(words, "%d", &port_) != 1) port_ = 0;
		std::fclose(words);
	}
	~ServerProcess() { stop(); }
	ServerProcess(const ServerProcess&) = delete;

	int port() const { return port_; }
	pid_t pid() const { return pid_; }
	std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
	// Sends SIGSTOP, and returns when every thread of the server has stopped: the signal's sender
	// does not wait for that. False: some have not within 10 s.
	bool pause() const {
		::kill(pid_, SIGSTOP);
		const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
		while (!is_paused())
			if (std::chrono::steady_clock::now() > deadline) return false;
		return true;
	}
	void resume() const { ::kill(pid_, SIGCONT); }
	// Begins a graceful stop, and returns at once.
	void request_stop() {
		if (stdin_ >= 0) close(stdin_);
		stdin_ = -1;
	}
	// Stops it gracefully and returns its wait status; 0: it exited well, or had ended before.
	int stop() {
		request_stop();
		return wait();
	}
	void kill() {
		if (pid_ > 0) ::kill(pid_, SIGKILL);
		wait();
	}

private:
	bool is_paused() const {
		const std::filesystem::path threads = "/proc/" + std::to_string(pid_) + "/task";
		for (const auto& thread : std::filesystem::directory_iterator(threads)) {
			std::ifstream file(thread.path() / "stat");
			std::string text;
			std::getline(file, text);
			// The state is behind the name, which is in brackets and may contain some.
			const std::size_t end = text.rfind(") ");
			if (end == std::string::npos || text[end + 2] != 'T') return false;
		}
		return true;
	}
	int wait() {
		int status = 0;
		if (pid_ > 0) waitpid(pid_, &status, 0);
		pid_ = -1;
		return status;
	}
	pid_t pid_ = -1;
	int stdin_ = -1;
	int port_ = 0;
};

}  // namespace rpc_test
