// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <array>
#include <utility>

namespace tw::search {
namespace {

template <class T>
void get(Reading& reading, T& value) {
  value = reading.get<T>();
}
template <class T>
void get(Reading& reading, std::vector<T>& values) {
  values = reading.get_values<T>();
}
void get(Reading& reading, Individual& individual) { individual = reading.get_individual(); }

template <size_t kind>
Message get_alternative(Reading& reading) {
  using Alternative = std::variant_alternative_t<kind, Message>;
  Alternative alternative;
  std::apply([&](auto... fields) { (get(reading, alternative.*fields), ...); }, Alternative::fields);
  return alternative;
}

template <size_t... kinds>
constexpr auto readers_of(std::index_sequence<kinds...> /*all*/) {
  return std::array{&get_alternative<kinds>...};
}

}  // namespace

void put(Bytes& bytes, const Message& message) {
  put(bytes, static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& each) { std::apply([&](auto... fields) { (put(bytes, each.*fields), ...); }, each.fields); }, message);
}

Message get_message(Reading& reading) {
  constexpr auto readers = readers_of(std::make_index_sequence<std::variant_size_v<Message>>());
  const auto kind = reading.get<uint8_t>();
  if (kind >= readers.size()) {
    reading.fail();
    return {};
  }
  return readers[kind](reading);
}

}  // namespace tw::search
