// ServerProcess: rpc_test_server (server_main.cc) as a child process, which the destructor stops.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

extern char** environ;

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
