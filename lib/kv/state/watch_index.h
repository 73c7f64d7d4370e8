// SPDX-License-Identifier: Apache-2.0
// WatchIndex: which watches a key belongs to. A watch is of one key, or of all keys that begin with
// a prefix, which may be empty.
//
// The texts are a radix tree: each node adds one or more bytes to the text of its parent. The
// watches of a key lie at the nodes of one path, which begins at the root.
//
// Threads: any one at a time; no I/O.
// Owns: the texts, and no watch. Each watch is removed before it dies, and before the index dies.
// Invariants: a search looks at no more nodes than the key has bytes, and at the root, and compares
//   each byte of the key once. So does add(). The time of remove(), pause() and resume() does not
//   depend on the number of watches. The tree has at most two nodes for each text, and the root.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::kv {

class WatchIndex {
	struct Node;

public:
	class Watch {
		friend class WatchIndex;
		Node* node_ = nullptr;  // that of its text
		std::uint32_t place_ = paused_place;  // in Node::watches
		bool is_prefix_ = false;
	};

	void add(Watch& watch, std::string_view text, bool is_prefix) {
		watch.node_ = &node_of(text);
		watch.is_prefix_ = is_prefix;
		++watch.node_->holders;
		resume(watch);
	}
	void remove(Watch& watch) {
		pause(watch);
		Node* const node = std::exchange(watch.node_, nullptr);
		std::vector<Watch*>& others = node->watches[watch.is_prefix_];
		if (others.capacity() > 4 * others.size()) others.shrink_to_fit();
		if (--node->holders == 0) drop(node);
	}
	// A paused watch keeps its place in the tree, and no key belongs to it.
	void pause(Watch& watch) {
		if (watch.place_ == paused_place) return;
		std::vector<Watch*>& all = watch.node_->watches[watch.is_prefix_];
		all[watch.place_] = all.back();
		all[watch.place_]->place_ = watch.place_;
		all.pop_back();
		watch.place_ = paused_place;
		--size_;
	}
	void resume(Watch& watch) {
		std::vector<Watch*>& all = watch.node_->watches[watch.is_prefix_];
		watch.place_ = static_cast<std::uint32_t>(all.size());
		all.push_back(&watch);
		++size_;
	}
	static std::size_t text_length(const Watch& watch) { return watch.node_->text_length; }

	// Calls `see` with each watch to which the key belongs. It may pause that watch, and must not
	// change the index otherwise.
	template <class See> void for_each_of(std::string_view key, See see) const {
		walk(key, [&](const std::vector<Watch*>& all) {
			// From the end on: a watch that is paused is replaced by one that was seen.
			for (std::size_t i = all.size(); i > 0; --i) see(*all[i - 1]);
		});
	}
	// The cost of for_each_of(): the nodes that it looks at, and the watches to which the key
	// belongs.
	struct Cost {
		std::size_t nodes = 0, watches = 0;
	};
	Cost cost_of(std::string_view key) const {
		Cost cost;
		cost.nodes = walk(key, [&](const std::vector<Watch*>& all) { cost.watches += all.size(); });
		return cost;
	}

	bool empty() const { return size_ == 0; }  // no watch, or all are paused

private:
	static constexpr std::uint32_t paused_place = ~std::uint32_t{0};
	struct Child {
		unsigned char first;  // the first of the node's bytes
		std::unique_ptr<Node> node;
	};
	struct Node {
		Node* parent = nullptr;
		std::string bytes;  // those by which its text is longer than that of its parent
		std::vector<Child> children;  // by `first`, ascending
		std::array<std::vector<Watch*>, 2> watches;  // those of its text as a key, and as a prefix
		std::uint32_t text_length = 0;
		std::uint32_t holders = 0;  // watches of its text, with those that are paused

		std::vector<Child>::iterator place_of(char first) {
			return std::ranges::lower_bound(children, static_cast<unsigned char>(first), {}, &Child::first);
		}
		// Null: there is none.
		const Node* child_of(char first) const {
			const auto at = const_cast<Node*>(this)->place_of(first);
			return at == children.end() || at->first != static_cast<unsigned char>(first) ? nullptr : at->node.get();
		}
	};

	// Calls `visit` with each list of watches to which the key belongs. Returns the number of
	// nodes.
	template <class Visit> std::size_t walk(std::string_view key, Visit visit) const {
		std::size_t nodes = 1;
		for (const Node* at = &root_;; ++nodes) {
			visit(at->watches[1]);
			if (key.empty()) {
				visit(at->watches[0]);
				return nodes;
			}
			const Node* const next = at->child_of(key.front());
			if (next == nullptr) return nodes;
			if (!key.starts_with(next->bytes)) return nodes + 1;
			key.remove_prefix(next->bytes.size());
			at = next;
		}
	}
	// Returns the node of this text, which is made if there is none.
	Node& node_of(std::string_view text) {
		Node* at = &root_;
		while (!text.empty()) {
			auto place = at->place_of(text.front());
			if (place == at->children.end() || place->first != static_cast<unsigned char>(text.front())) {
				auto leaf = make(at, text);
				Node& made = *leaf;
				at->children.insert(place, {static_cast<unsigned char>(text.front()), std::move(leaf)});
				return made;
			}
			const std::string& bytes = place->node->bytes;
			const auto common = static_cast<std::size_t>(std::ranges::mismatch(bytes, text).in1 - bytes.begin());
			if (common < bytes.size()) split(*place, common);
			at = place->node.get();
			text.remove_prefix(common);
		}
		return *at;
	}
	static std::unique_ptr<Node> make(Node* parent, std::string_view bytes) {
		auto node = std::make_unique<Node>();
		node->parent = parent;
		node->bytes = bytes;
		node->text_length = parent->text_length + static_cast<std::uint32_t>(bytes.size());
		return node;
	}
	// Puts a node between this one and its parent, `common` bytes behind the parent.
	static void split(Child& child, std::size_t common) {
		std::unique_ptr<Node> lower = std::move(child.node);
		child.node = make(lower->parent, std::string_view(lower->bytes).substr(0, common));
		std::string(lower->bytes, common).swap(lower->bytes);
		lower->parent = child.node.get();
		const auto first = static_cast<unsigned char>(lower->bytes.front());
		child.node->children.push_back({first, std::move(lower)});
	}
	// The node has lost its last watch. A node without a watch has two children or more.
	void drop(Node* node) {
		if (node != &root_ && node->children.empty()) {
			Node* const parent = node->parent;
			parent->children.erase(parent->place_of(node->bytes.front()));
			node = parent;
		}
		if (node == &root_ || node->holders > 0 || node->children.size() != 1) return;
		// Its only child takes its place.
		Child& place = *node->parent->place_of(node->bytes.front());
		std::unique_ptr<Node> child = std::move(node->children.front().node);
		child->bytes.insert(0, node->bytes);
		child->bytes.shrink_to_fit();
		child->parent = node->parent;
		place.node = std::move(child);
	}

	Node root_;
	std::size_t size_ = 0;  // watches that are not paused
};

}  // namespace verbena::kv
