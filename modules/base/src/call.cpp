// SPDX-License-Identifier: Apache-2.0
#include <tw/base/call.hpp>
#include <tw/base/concat.hpp>

#include <array>

namespace tw {
namespace {

// By Collective: its name, the text before its peer, and whether it reduces.
struct Wording {
  std::string_view name;
  std::string_view peer;
  bool reduces;
};

constexpr std::array<Wording, collectives> wordings{{{"nothing", "", false},
                                                     {"barrier", "", false},
                                                     {"broadcast", " from rank ", false},
                                                     {"allreduce", "", true},
                                                     {"reduce", " to rank ", true},
                                                     {"allgather", "", false},
                                                     {"reduce_scatter", "", true},
                                                     {"alltoall", "", false},
                                                     {"gather", " to rank ", false},
                                                     {"scatter", " from rank ", false},
                                                     {"send", " to rank ", false},
                                                     {"receive", " from rank ", false},
                                                     {"making a communicator", "", false}}};

const Wording& wording(Collective collective) noexcept { return wordings[static_cast<size_t>(collective)]; }

bool moves_elements(Collective collective) {
  return collective != Collective::none && collective != Collective::barrier && collective != Collective::make_communicator;
}

}  // namespace

std::string_view name_of(Collective collective) noexcept { return wording(collective).name; }

std::string Call::describe() const {
  const Wording& words = wording(collective);
  std::string text(words.name);
  if (words.reduces) text += concat(' ', name_of(op));
  if (peer >= 0 && !words.peer.empty()) text += concat(words.peer, peer);
  if (moves_elements(collective)) text += concat(" of ", count, ' ', name_of(type));
  if (on_device) text += " on a device";
  return text;
}

}  // namespace tw
