// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/presence.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <mutex>
#include <vector>

#include "base/kept_errno.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/time.h"
#include "nic/presence/render.h"
#include "nic/presence/snapshot.h"

namespace verbena::presence {
namespace {

constexpr Nanoseconds view_age_max = 100'000'000;  // a view may be this old

std::atomic<const Source*> the_source{nullptr};

struct Current {
	std::mutex mutex;  // guards the pointer, not the view
	std::shared_ptr<const View> view;
	Nanoseconds checked_at = 0;
};

// Never destroyed: programs open files from their own destructors and exit handlers.
Current& current() {
	static Current& instance = *new Current;
	return instance;
}

void before_fork() { current().mutex.lock(); }
void after_fork() { current().mutex.unlock(); }

// The calls below may be cancellation points, but no thread is cancelled inside of our work: it
// would leave descriptors behind.
class NoCancel {
public:
	NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~NoCancel() { pthread_setcancelstate(before_, nullptr); }
	NoCancel(const NoCancel&) = delete;
	NoCancel& operator=(const NoCancel&) = delete;

private:
	int before_ = 0;
};

std::vector<SystemEntry> list_system() {
	std::vector<SystemEntry> paths;
	for (const char* path : our_folders) {
		DIR* folder = opendir(path);
		if (!folder) continue;
		while (const dirent* entry = readdir(folder))
			if (entry->d_name[0] != '.') paths.push_back(std::string(path) + '/' + entry->d_name);
		closedir(folder);
	}
	return paths;
}

// Says once that another user's folder is in the way of the snapshot, which is at `root`, or
// nowhere if that is empty.
void explain_foreign_folder(const std::string& root) {
	static std::atomic<bool> explained = false;
	const auto foreign = foreign_folder(snapshot_homes(), root);
	if (!foreign || explained.exchange(true, std::memory_order_relaxed)) return;
	if (root.empty())
		log::error(
			"/dev/infiniband and /sys/class/infiniband show no device: user id %u has made %s, which is for files of "
			"this user (id %u); let root remove it, or set XDG_RUNTIME_DIR or HOME to a folder of yours",
			foreign->owner, foreign->path.c_str(), geteuid());
	else
		log::warn("user id %u has made %s, which is for files of this user (id %u); they are in %s instead",
			foreign->owner, foreign->path.c_str(), geteuid(), root.substr(0, root.rfind('/')).c_str());
}

std::shared_ptr<const View> make_view(const Source& source, const std::shared_ptr<const View>& last) {
	auto view = std::make_shared<View>();
	view->tree = render(source.devices(), list_system());
	view->hash = view->tree.hash();
	view->user = geteuid();
	if (last && last->hash == view->hash && last->user == view->user && access(last->root.c_str(), X_OK) == 0)
		return last;
	view->root = make_snapshot(view->tree, snapshot_homes());
	explain_foreign_folder(view->root);
	return view;
}

// The present view, or null.
std::shared_ptr<const View> view_now() {
	const Source* source = installed();
	if (!source) return nullptr;
	Current& c = current();
	std::shared_ptr<const View> last;
	{
		const std::lock_guard lock(c.mutex);
		last = c.view;
		if (last && monotonic_now() - c.checked_at < view_age_max && last->user == geteuid())
			return last->root.empty() ? nullptr : last;
	}
	// The source takes locks of its own, so it is asked without ours.
	auto made = make_view(*source, last);
	const std::lock_guard lock(c.mutex);
	c.view = made;
	c.checked_at = monotonic_now();
	return made->root.empty() ? nullptr : made;
}

std::string link_text(const char* path) {
	char text[PATH_MAX];
	const ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, path, text, sizeof text);
	return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

// The folder to which a relative path is relative, as the program may see it.
std::string folder_path(int dirfd) {
	std::string path =
		link_text(dirfd == AT_FDCWD ? "/proc/self/cwd" : ("/proc/self/fd/" + std::to_string(dirfd)).c_str());
	std::string visible = visible_path(path);
	return visible.empty() ? path : visible;
}

Target target_of(const View& view, const Place& place) {
	if (place.error) return {.where = Target::Where::failed, .error = place.error};
	if (!place.entry) return {.where = Target::Where::system, .path = place.path, .missing = place.missing};
	return {.where = Target::Where::ours,
		.path = view.root + place.path,
		.canonical = place.path,
		.kind = place.entry->kind,
		.number = place.entry->number,
		.counter = place.entry->kind == Kind::live ? place.entry->text : std::string()};
}

Target resolve_now(int dirfd, const char* path, bool follow) {
	std::string absolute = path;
	if (path[0] != '/') {
		const std::string folder = folder_path(dirfd);
		if (folder.empty() || folder[0] != '/') return {};
		absolute = folder + '/' + path;
		if (!is_in_our_folders(absolute.c_str())) return {};
	}
	const auto view = view_now();
	return view ? target_of(*view, view->tree.walk(absolute, follow)) : Target{};
}

}  // namespace

void install(const Source& source) {
	pthread_atfork(before_fork, after_fork, after_fork);
	the_source.store(&source, std::memory_order_release);
	note_working_folder();  // a parent's may be ours
}

const Source* installed() { return the_source.load(std::memory_order_acquire); }

Target resolve(int dirfd, const char* path, bool follow) noexcept {
	if (Unseen::here()) return {};
	const KeptErrno kept;
	const NoCancel no_cancel;
	const Unseen unseen;
	try {
		return resolve_now(dirfd, path, follow);
	} catch (...) {
		return {};
	}
}

std::string visible_path(std::string_view path) noexcept {
	try {
		return std::string(inside_snapshot(path, snapshot_homes()));
	} catch (...) {
		return {};
	}
}

void note_working_folder() noexcept {
	const KeptErrno kept;
	try {
		const bool ours = !visible_path(link_text("/proc/self/cwd")).empty();
		working_folder_given.store(ours, std::memory_order_relaxed);
	} catch (...) {  // NOLINT(bugprone-empty-catch): without memory the flag stays as it is
	}
}

int open_live(const std::string& counter, int flags) noexcept {
	const NoCancel no_cancel;
	const Unseen unseen;
	const Source* source = installed();
	const std::size_t slash = counter.find('/');
	errno = ENOENT;
	if (!source || slash == std::string::npos) return -1;
	const std::string_view whole = counter;
	try {
		return source->open_counter(whole.substr(0, slash), whole.substr(slash + 1), flags);
	} catch (...) {
		errno = ENOMEM;
		return -1;
	}
}

}  // namespace verbena::presence
