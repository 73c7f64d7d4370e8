// SPDX-License-Identifier: Apache-2.0
// An intrusive list: the links are part of the items, so inserting and removing allocate nothing.
//
// Threads: none of its own; all items of a list belong to one thread.
// Owns: nothing.
// Lifetime: an item removes itself in its destructor, and a list unlinks its items in its own.
#pragma once

namespace verbena::async {

// The links of an item; derive from it. An item is in at most one List, and must not be copied or
// moved.
class Linked {
public:
	Linked() = default;
	~Linked() { unlink(); }
	Linked(const Linked&) = delete;
	Linked& operator=(const Linked&) = delete;

	// True while the item is in a list.
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

	// Calls `visit` with each item, the first one first. It must not change the list.
	template <class Visit> void for_each(Visit visit) const {
		for (const Linked* item = head_.next_; item != &head_; item = item->next_) visit(static_cast<const T&>(*item));
	}

	// Removes the item from the list it is in, if any, and appends it to this one.
	void push_back(T& item) {
		Linked& link = item;
		link.unlink();
		link.next_ = &head_;
		link.previous_ = head_.previous_;
		head_.previous_->next_ = &link;
		head_.previous_ = &link;
	}
	// Removes and returns the first item; nullptr if the list is empty.
	T* pop_front() {
		if (empty()) return nullptr;
		T& item = front();
		static_cast<Linked&>(item).unlink();
		return &item;
	}
	// Moves all items of `other` to the end of this list, in their order.
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
