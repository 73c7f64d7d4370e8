// verbena doctor: tries everything that the software NIC needs of this machine and gives advice on
// each thing that is missing.
//
// Errors: exit code 1 if there is a problem; a note (the NIC works, but slower) is not one.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lib/verbs/device.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// note: the NIC works without it, but slower or with less. problem: something does not work.
enum class Level { good, note, problem };

// The result of one check.
struct Finding {
	std::string subject;
	Level level = Level::good;
	std::string seen;
	std::string advice;  // the way out; empty if the level is good
};

constexpr int roce_port = 4791;

// Owns a file descriptor, or none if `fd` is negative.
class Descriptor {
public:
	explicit Descriptor(int fd) : fd_(fd) {}
	~Descriptor() {
		if (fd_ >= 0) close(fd_);
	}
	Descriptor(const Descriptor&) = delete;
	int get() const { return fd_; }
	bool good() const { return fd_ >= 0; }

private:
	int fd_;
};

// The finding of a system call that just ran: errno must still be that of the call.
Finding needs(const char* subject, bool there, const char* advice) {
	const int error = errno;
	if (there) return {subject, Level::good, "works", ""};
	return {subject, Level::problem, std::strerror(error), advice};
}

bool module_loaded(const char* name) { return std::filesystem::exists(std::string("/sys/module/") + name); }

// The uid of the user that has bound UDP port 4791, from the kernel's socket tables; empty if none.
std::string owner_of_roce_port() {
	for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
		std::ifstream file(table);
		for (std::string line; std::getline(file, line);) {
			std::istringstream fields(line);
			std::string slot, local, remote, state, queues, timer, retransmits, uid;
			fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid;
			if (local.ends_with(fmt::format(":{:04X}", roce_port))) return uid;
		}
	}
	return "";
}

Finding check_wire_port() {
	const char* subject = "UDP port 4791 (RoCE v2)";
	const Descriptor socket_fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const Descriptor ipv4_fd(socket_fd.good() ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const int fd = socket_fd.good() ? socket_fd.get() : ipv4_fd.get();
	if (fd < 0)
		return {subject, Level::problem, std::strerror(errno),
			"allow UDP sockets: a seccomp profile or a security module forbids them"};
	const int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(roce_port)};
	sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(roce_port)};
	const bool bound = socket_fd.good() ? bind(fd, reinterpret_cast<sockaddr*>(&v6), sizeof v6) == 0
										: bind(fd, reinterpret_cast<sockaddr*>(&v4), sizeof v4) == 0;
	if (bound) return {subject, Level::good, "can be bound", ""};
	if (errno != EADDRINUSE)
		return {subject, Level::problem, std::strerror(errno),
			"allow binding UDP port 4791; without it only processes of this host can be reached"};
	const std::string uid = owner_of_roce_port();
	if (module_loaded("rdma_rxe"))
		return {subject, Level::problem, "in use by the kernel's Soft-RoCE (rdma_rxe)",
			"remove its links (rdma link delete NAME) or run in another network namespace; connections within this "
			"host work without the port"};
	return {subject, Level::problem, uid.empty() ? "in use" : "in use by a program of user id " + uid,
		"stop that program (find it with: ss -ulpn 'sport = 4791') or run in another network namespace; connections "
		"within this host work without the port"};
}

Finding check_segmentation() {
	const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const int bytes = 1024;
	if (setsockopt(fd.get(), SOL_UDP, UDP_SEGMENT, &bytes, sizeof bytes) == 0)
		return {"UDP segmentation offload (GSO)", Level::good, "works", ""};
	return {"UDP segmentation offload (GSO)", Level::note, std::strerror(errno),
		"packets between hosts are sent one by one, which is slower: use Linux 4.18 or later"};
}

Finding check_abstract_name() {
	const Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	sockaddr_un name{.sun_family = AF_UNIX};
	const std::string text = fmt::format("@verbena-doctor/{}", getpid());
	std::memcpy(name.sun_path + 1, text.data() + 1, text.size() - 1);
	const bool works = fd.good() &&
		bind(fd.get(), reinterpret_cast<sockaddr*>(&name),
			static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size())) == 0;
	return needs("abstract Unix socket names", works,
		"processes of one host find each other by these names: remove the sandbox rule that forbids them");
}

Finding check_receive_buffer() {
	std::ifstream file("/proc/sys/net/core/rmem_max");
	long bytes = 0;
	file >> bytes;
	if (bytes >= 4 << 20)
		return {"socket receive buffer", Level::good, fmt::format("net.core.rmem_max = {}", bytes), ""};
	if (bytes == 0) return {"socket receive buffer", Level::note, "net.core.rmem_max cannot be read here", ""};
	return {"socket receive buffer", Level::note, fmt::format("net.core.rmem_max = {}", bytes),
		"bursts between hosts may be lost and sent again: raise it with 'sysctl -w net.core.rmem_max=4194304' (as "
		"root)"};
}

Finding check_descriptors() {
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	const std::string seen = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
	if (limit.rlim_cur >= 1024) return {"open files (ulimit -n)", Level::good, seen, ""};
	return {"open files (ulimit -n)", Level::note, seen,
		"each peer process needs four descriptors: raise the limit with 'ulimit -n 4096'"};
}

Finding check_processor() {
	const unsigned cores = std::thread::hardware_concurrency();
	if (cores < 2)
		return {"processor", Level::note, "one core",
			"two polling processes share it, so rates will be low: use a machine with two cores"};
	if (!__builtin_cpu_supports("avx2"))
		return {"processor", Level::note, fmt::format("{} cores, no AVX2", cores),
			"copies use 16-byte registers, so large messages are slower"};
	return {"processor", Level::good, fmt::format("{} cores, AVX2", cores), ""};
}

Finding check_kernel_devices() {
	std::string loaded;
	for (const char* module : {"ib_uverbs", "rdma_rxe", "siw", "mlx5_ib", "mlx4_ib", "irdma", "bnxt_re", "efa"})
		if (module_loaded(module)) loaded += (loaded.empty() ? "" : " ") + std::string(module);
	return {"kernel RDMA modules", Level::good, loaded.empty() ? "none loaded (none is needed)" : loaded, ""};
}

std::vector<Finding> examine() {
	std::vector<Finding> findings;
	const auto devices = lib::list_devices();
	if (!devices) {
		findings.push_back({"RDMA devices", Level::problem, "none",
			"run programs under 'verbena run -- PROGRAM'; if this line does not change, libverbena-nic.so could not "
			"start: see the problems below"});
	} else {
		std::string names;
		for (const auto& device : *devices) names += (names.empty() ? "" : " ") + device.name;
		const auto choice = lib::choose(*devices, {});
		if (choice) findings.push_back({"RDMA devices", Level::good, names, ""});
		else
			findings.push_back({"RDMA devices", Level::problem, names + ": " + choice.error(),
				"see their ports and GIDs with 'verbena devices'"});
	}
	{
		const Descriptor fd(memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
		findings.push_back(needs(
			"memfd_create", fd.good(), "shared memory between processes needs it: allow it in the seccomp profile"));
	}
	{
		const Descriptor fd(eventfd(0, EFD_CLOEXEC));
		findings.push_back(needs("eventfd", fd.good(), "wake-ups need it: allow it in the seccomp profile"));
	}
	{
		const Descriptor fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
		Finding pidfd =
			needs("pidfd_open", fd.good(), "a peer's death is noticed only by its socket: use Linux 5.3 or later");
		if (pidfd.level == Level::problem) pidfd.level = Level::note;
		findings.push_back(pidfd);
	}
	findings.push_back(check_abstract_name());
	findings.push_back(check_wire_port());
	findings.push_back(check_segmentation());
	findings.push_back(check_receive_buffer());
	findings.push_back(check_descriptors());
	findings.push_back({"locked memory (ulimit -l)", Level::good, "not needed: registration pins no memory", ""});
	findings.push_back(check_processor());
	findings.push_back(check_kernel_devices());
	return findings;
}

constexpr const char* level_name(Level level) {
	return level == Level::good ? "ok" : level == Level::note ? "note" : "problem";
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
	CLI::App* sub =
		app.add_subcommand("doctor", "Check what the software NIC needs of this machine, and say how to fix problems");
	sub->footer(
		"Examples:\n  verbena doctor\n  verbena doctor --json\nExit code 1 if there is a problem; notes are not "
		"problems.");
	auto json = std::make_shared<bool>(false);
	sub->add_flag("--json", *json, "Print JSON");
	sub->callback([json, &action] {
		action = [json]() -> int {
			const auto findings = examine();
			bool problem = false;
			nlohmann::ordered_json all = nlohmann::ordered_json::array();
			for (const Finding& each : findings) {
				problem |= each.level == Level::problem;
				if (*json) {
					all.push_back({{"subject", each.subject}, {"level", level_name(each.level)}, {"seen", each.seen},
						{"advice", each.advice}});
				} else {
					fmt::print("{:<8} {:<32} {}\n", level_name(each.level), each.subject, each.seen);
					if (!each.advice.empty()) fmt::print("{:<8} {:<32} -> {}\n", "", "", each.advice);
				}
			}
			if (*json) fmt::print("{}\n", nlohmann::ordered_json{{"findings", all}, {"problem", problem}}.dump(2));
			return problem ? failed : good;
		};
	});
}

}  // namespace verbena::tools
