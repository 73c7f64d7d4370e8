// SPDX-License-Identifier: Apache-2.0
// The book of the checker: the objects and requests of the program, as far as the rules need them.
//
// Each method is one act of the program, which the decorators of nic/verbs report; the book finds
// the rules that it breaks. The book calls nothing of the NIC, and reads the program's memory only
// by guarded copies.
//
// A request is open from its post to the poll of its own completion or, if it is unsignaled, of the
// completion of a later one. The manual pages promise no more, although this NIC is done with it
// earlier.
//
// Threads: any; one mutex inside.
// Errors: std::bad_alloc, which loses what the call had to say.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/time.h"
#include "nic/queues/completion.h"
#include "nic/queues/work_request.h"
#include "nic/rules/device_threads.h"
#include "nic/rules/facts.h"
#include "nic/rules/findings.h"
#include "nic/rules/given_back.h"
#include "nic/rules/records.h"
#include "nic/rules/sanitizer.h"
#include "nic/rules/thread_sanitizer.h"

namespace verbena::rules {

class Book {
public:
	// The properties of the device under whose profile the program runs.
	struct Profile {
		bool read_sink_needs_remote_write = false;
	};
	explicit Book(Findings& findings) : Book(findings, Profile{}) {}
	Book(Findings& findings, const Profile& profile) : findings_(findings), profile_(profile) {}

	// ---- Objects. `uses`: those that cannot be destroyed before this one.
	void made(Kind, Handle, std::vector<Handle> uses, Site);
	// Call destroys() before each destroy function and one of the others after it: by then, another
	// thread may have made another object at the same address. EBUSY: refused_destroy().
	void destroys(Handle, Site);
	void refused_destroy(Handle, Site);
	void destroyed(Kind, Handle);

	void registered(Handle mr, const RegionFacts&, Site);
	// Takes no lock and allocates nothing: the thread may be inside of an allocator.
	void gives_back(std::uint64_t begin, std::uint64_t end) noexcept { given_back_.note(begin, end); }
	void region_refused(unsigned access, Site);
	void deregisters(Handle mr, Site);
	// The call has failed: windows are bound.
	void deregister_refused(Handle mr, Site);

	// The program has asked for the limits of a device.
	void asked_device() { asked_device_.store(true, std::memory_order_relaxed); }
	bool has_asked_device() const { return asked_device_.load(std::memory_order_relaxed); }
	void port_refused(unsigned port, Site);
	// An extended create function was refused with EOPNOTSUPP.
	void extended_queue_pair_refused(Site);
	// A queue pair with these sizes was refused.
	void queue_pair_refused(const QueuePairFacts&, int error, Site);
	void queue_pair_made(Handle qp, const QueuePairFacts&, Site);
	void changed(Handle qp, const ChangeFacts&, Site);
	void change_without_grh(Handle qp, Site);  // refused
	void change_needs_sqd(Handle qp, Site);  // refused in IBV_QPS_RTS
	// The rdma_cm id that was connected with this queue pair is destroyed.
	void id_destroyed(std::uint32_t qpn, Site);
	// `receive_taken`: a message has begun to fill a request of the shared receive queue.
	void destroys_queue_pair(Handle qp, bool receive_taken, Site);
	void address_handle_destroyed(Handle ah, Site);
	// True if the object was destroyed before.
	bool is_ghost(Handle, const char* verb, Site);
	// The process is about to fork, and ibv_fork_init() was not called.
	void forks(Site);

	// The attributes of a connection's two ends, by which one is wrong for the other.
	struct ConnectionFacts {
		std::uint32_t pid = 0, qpn = 0;
		std::uint32_t path_mtu = 0;  // bytes
		std::uint32_t max_rd_atomic = 0, max_dest_rd_atomic = 0;
	};
	// Whether a queue pair has gone to IBV_QPS_RTS since connections_are_known().
	bool has_new_connections();
	void connections_are_known();
	void compare(std::uint32_t qpn, const ConnectionFacts& own, const ConnectionFacts& peer);

	// ---- Requests
	// A thread begins a post to a queue pair that has a thread domain: true if no other one is in
	// a post. leaves() gets the answer.
	bool enters(Handle qp);
	void leaves(Handle qp, bool alone, Site);
	// The sends that fit, if places are free only after a poll. For a post that this cuts short,
	// call send_refused() as well.
	std::uint32_t room(Handle qp);
	// Before the NIC has the requests: another thread may poll their completions at once.
	void sends_posted(Handle qp, std::span<const SendFacts>, const Caller&);
	// The NIC has refused the last `count` requests that the calling thread has posted.
	void sends_withdrawn(Handle qp, std::size_t count, const Caller&);
	// `unpolled`: completions that the send completion queue holds.
	void send_refused(Handle qp, const SendFacts&, int error, std::uint32_t unpolled, Site);
	// The same for receives. `queue`: the queue pair or the shared receive queue.
	std::uint32_t room_for_receives(Handle queue);
	void receives_posted(Handle queue, std::span<const ReceiveFacts>, const Caller&);
	void receives_withdrawn(Handle queue, std::size_t count, const Caller&);
	void receive_refused(Handle queue, const ReceiveFacts&, int error, Site);
	// `produced`: the completions that the queue has received so far, modulo 2^32. `taken`: those
	// that have been polled, with these as the last ones.
	struct Counts {
		std::uint32_t produced = 0, taken = 0;
	};
	void polled(Handle cq, std::span<const queues::Completion>, Counts, const Caller&, Nanoseconds now);
	void begins_extended_post(Handle qp);
	void ends_extended_post(Handle qp);
	// True if this thread is between ibv_wr_start() and ibv_wr_complete() of the queue pair; then a
	// post in another way would wait for ever.
	bool is_in_extended_post(Handle qp, Site);

	// ---- Events
	void completion_queue_made(Handle cq, std::uint32_t entries, Handle channel, Site);
	// `produced`: the completions that the queue has received so far, modulo 2^32.
	void armed(Handle cq, std::uint32_t produced, Site);
	// The calling thread is about to sleep until an event. `taken(cq)`: the completions that have
	// been polled so far, modulo 2^32.
	void waits_for_event(Handle channel, std::uint32_t (*taken)(Handle cq), Site, Nanoseconds now);
	void event_fetched(Handle channel, Handle cq);  // cq null: the wait has ended without one
	void vector_refused(int vector, int vectors, Site);
	void overran(Handle cq);
	void destroys_channel(Handle channel, Site);
	void acknowledges(Handle cq, std::uint32_t count, Site);
	// An object is about to be destroyed of which `missing` fetched events are not acknowledged.
	void destroys_with_events(Kind, Handle, std::uint32_t missing, Site, Nanoseconds now);

	// ---- Arrivals: what peers do, just before the NIC does it. Addresses are this process's.
	// `last`: the first packet is the last one, too.
	void write_arrives(std::uint32_t qpn, std::uint64_t address, std::uint64_t length, bool last, Nanoseconds now);
	void write_goes_on(std::uint32_t qpn, bool last, Nanoseconds now);
	// The queue pair is about to end: its messages do not go on.
	void writes_end(std::uint32_t qpn);
	// A message begins to fill this request, the next one of the queue pair.
	void receive_is_filled(std::uint32_t qpn, std::uint64_t wr_id, std::span<const queues::Segment>);
	// A receive of the queue pair has completed, perhaps without the call above: by a multicast.
	void receive_has_completed(std::uint32_t qpn, std::uint64_t wr_id);
	// The word has the value `before`, and will have `after`.
	void atomic_arrives(
		std::uint32_t qpn, std::uint64_t address, std::uint64_t before, std::uint64_t after, Nanoseconds now);
	// A request is about memory of a region that is not mapped.
	void memory_is_gone(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t address);
	// A request is about memory of a region, which is mapped.
	void memory_is_used(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t address, std::uint64_t length);
	// Whether it is worth to look for threads that read the memory of a WRITE while it arrives.
	bool wants_polled_writes() const { return findings_.wants(Rule::poll_memory_write); }
	// A thread has accessed the memory of a WRITE `count` times while it arrived. `next`: the
	// address behind such an instruction, or 0.
	void write_is_polled(
		std::uint32_t qpn, std::uint64_t address, std::uint64_t length, std::uint64_t count, std::uintptr_t next);
	// A peer has used a key that gives it no right.
	void wrong_key(std::uint32_t qpn, std::uint32_t key);
	// The queue pair has answered by an RNR NAK.
	void receiver_not_ready(std::uint32_t qpn);

	// ---- Time
	// Looks for waits that cannot end. Several times a second.
	void look(Nanoseconds now);
	// The program ends.
	void finish();

private:
	QueuePair* find_queue_pair(Handle qp);
	QueuePair* find_by_number(std::uint32_t qpn);
	Site made_at(std::uint32_t qpn);
	std::deque<OpenReceive>* receives_of(Handle queue);
	template <class Visit> void visit_open(Visit&&);
	// Removes the last `count` requests of the thread, after visit(request).
	template <class Request, class Visit>
	static void withdraw(std::deque<Request>& requests, std::size_t count, pthread_t thread, Visit&& visit) {
		for (std::size_t i = requests.size(); count != 0 && i-- != 0;) {
			if (!pthread_equal(requests[i].caller.thread, thread)) continue;
			visit(requests[i]);
			requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(i));
			--count;
		}
	}
	void note_activity(const QueuePair&);
	// The memory belongs to the device, for the program's address sanitizer, or again to the
	// program.
	void lend(const std::vector<queues::Segment>&) const;
	void give_back(const std::vector<queues::Segment>&) const;
	// Reports memory that was mapped anew or given back since it was registered, once for each
	// region.
	void check_mapping(Region&, const queues::Segment&, const std::string& user);
	void check_mappings(const std::vector<queues::Segment>&, const std::string& user);
	void read_given_back();
	void check_older_regions(const RegionFacts&, Site);
	// The device may access the memory until the Use ends, for the program's thread sanitizer.
	DeviceThreads::Use watch(DeviceThreads::Access, const std::vector<queues::Segment>&, Site posted_at);
	bool is_registered(const queues::Segment&) const;
	bool meets_open_request(DeviceThreads::Access, const std::vector<queues::Segment>&) const;
	void count_open(Handle cq, int change);
	void check_send(QueuePair&, const OpenSend&, std::uint8_t flags, const Caller&);
	void check_order(QueuePair&, const OpenSend&, std::uint8_t flags, const Caller&);
	void check_flag(QueuePair&, const OpenSend&, const Caller&);
	void check_receive(Handle queue, const OpenReceive&);
	void check_read_sink(const QueuePair&, const OpenSend&, const Caller&);
	void check_lkeys(QueuePair&, const OpenSend& next, Site);
	void report_if_given_up(const QueuePair&);
	// The device may change this memory.
	void forget_digests(const std::vector<queues::Segment>&);
	void fill(OpenReceive&);
	std::deque<OpenReceive>* receives_of_number(std::uint32_t qpn);
	bool device_may_change(const std::vector<queues::Segment>&);
	template <class Visit> void visit_receives(Visit&&);
	void check_memory(const QueuePair&, const OpenSend&, const Caller&);
	void check_stack(const std::vector<queues::Segment>&, const Caller& posted, const Caller& now);
	bool is_receive(QueuePair&, const queues::Completion&);
	void complete_sends(QueuePair&, const queues::Completion&, const Caller&);
	void complete_receive(
		QueuePair&, const queues::Completion&, std::uint32_t index, std::uint32_t produced, const Caller&);
	void check_overrun(const QueuePair&, Handle cq, const Caller&);
	void forget_requests(QueuePair&);
	Note registered_note(std::uint32_t lkey) const;

	Findings& findings_;
	const Profile profile_;
	std::atomic<bool> asked_device_ = false;
	Sanitizer sanitizer_;
	DeviceThreads device_threads_;
	UnseenMutex mutex_;
	std::unordered_map<Handle, Object> objects_;
	std::unordered_map<Handle, Region> regions_;
	std::unordered_map<std::uint32_t, Handle> lkeys_;
	GivenBack given_back_;
	std::deque<Retired> retired_;  // the last ones
	std::unordered_map<Handle, Ghost> ghosts_;
	std::unordered_map<Handle, QueuePair> queue_pairs_;
	std::unordered_map<std::uint32_t, Handle> numbers_;  // QPN -> queue pair
	std::unordered_map<Handle, SharedQueue> shared_queues_;
	std::unordered_map<Handle, CompletionQueue> completion_queues_;
	std::unordered_map<std::uint64_t, AtomicWord> atomic_words_;  // by address
	std::unordered_map<std::uint32_t, OpenWrite> open_writes_;  // by queue pair number
	bool atomics_arrived_ = false;
	std::optional<Site> atomic_right_;  // where a region was given the right to atomics first
	std::map<std::pair<Handle, pthread_t>, Sleeper> sleepers_;  // by channel
	std::map<pthread_t, Destroyer> destroyers_;  // that wait for acknowledgements
	std::map<pthread_t, Destroying> destroying_;
	std::optional<std::pair<std::string, Site>> refused_queue_pair_;  // none was made since
	std::optional<Site> refused_extended_;  // the same
	std::uint64_t serial_ = 0;
	bool new_connections_ = false;
	std::map<std::uint32_t, std::pair<std::uint32_t, Site>> first_psns_;  // PSN -> QPN, place
	std::map<pthread_t, DataWrite> data_writes_;
};

}  // namespace verbena::rules
