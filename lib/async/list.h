// A list of things that wait, through the things themselves: no allocation, and a waiter that dies takes itself off.
#pragma once

namespace verbena::async {

// Derive from it. Linked in at most one List, and not copied or moved meanwhile.
class Linked {
public:
	Linked() = default;
	~Linked() { unlink(); }
	Linked(const Linked&) = delete;
	Linked& operator=(const Linked&) = delete;

	bool linked() const { return next_ != nullptr; }
	void unlink() {
		if (next_ == nullptr) return;
		next_->previous_ = previous_;
		previous_->next_ = next_;
		next_ = previous_ = nullptr;
	}

private:
	template <class> friend class List;
	Linked* next_ = nullptr;
	Linked* previous_ = nullptr;
};

template <class T> class List {
public:
	List() { head_.next_ = head_.previous_ = &head_; }
	~List() {
		while (!empty()) head_.next_->unlink();
		head_.next_ = head_.previous_ = nullptr;
	}
	List(const List&) = delete;
	List& operator=(const List&) = delete;

	bool empty() const { return head_.next_ == &head_; }
	T& front() { return static_cast<T&>(*head_.next_); }
	const T& front() const { return static_cast<const T&>(*head_.next_); }

	void push_back(T& item) {
		Linked& link = item;
		link.unlink();
		link.next_ = &head_;
		link.previous_ = head_.previous_;
		head_.previous_->next_ = &link;
		head_.previous_ = &link;
	}
	// The first one, off the list; nullptr if there is none.
	T* pop_front() {
		if (empty()) return nullptr;
		T& item = front();
		static_cast<Linked&>(item).unlink();
		return &item;
	}
	// All of `other` moves to the end of this one.
	void splice(List& other) {
		if (other.empty()) return;
		Linked* const first = other.head_.next_;
		Linked* const last = other.head_.previous_;
		other.head_.next_ = other.head_.previous_ = &other.head_;
		first->previous_ = head_.previous_;
		head_.previous_->next_ = first;
		last->next_ = &head_;
		head_.previous_ = last;
	}

private:
	Linked head_;
};

}  // namespace verbena::async
