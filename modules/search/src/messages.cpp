// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <array>
#include <utility>

namespace tw::search {
namespace {

template <size_t kind>
Message get_alternative(ByteReader& reading) {
  return reading.get<std::variant_alternative_t<kind, Message>>();
}

template <size_t... kinds>
constexpr auto readers_of(std::index_sequence<kinds...> /*all*/) {
  return std::array{&get_alternative<kinds>...};
}

}  // namespace

void put(Bytes& bytes, const Message& message) {
  put(bytes, static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& each) { put(bytes, each); }, message);
}

Message get_message(ByteReader& reading) {
  constexpr auto readers = readers_of(std::make_index_sequence<std::variant_size_v<Message>>());
  const auto kind = reading.get<uint8_t>();
  if (kind >= readers.size()) {
    reading.fail();
    return {};
  }
  return readers[kind](reading);
}

}  // namespace tw::search
