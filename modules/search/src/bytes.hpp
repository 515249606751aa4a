// SPDX-License-Identifier: Apache-2.0
// Individuals and numbers as flat bytes, for messages and journals.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <tw/evolution/individual.hpp>
#include <type_traits>
#include <vector>

namespace tw::search {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
void put(Bytes& bytes, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  put(bytes, static_cast<uint32_t>(values.size()));
  const size_t at = bytes.size();
  bytes.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
}

inline void put(Bytes& bytes, const std::string& text) {
  put(bytes, static_cast<uint32_t>(text.size()));
  for (const char each : text) bytes.push_back(static_cast<std::byte>(each));
}

inline void put(Bytes& bytes, const std::vector<std::string>& texts) {
  put(bytes, static_cast<uint32_t>(texts.size()));
  for (const std::string& each : texts) put(bytes, each);
}

inline void put(Bytes& bytes, const Individual& individual) {
  put(bytes, individual.trial);
  put(bytes, individual.values);
  put(bytes, individual.loss);
  put(bytes, individual.objectives);
  put(bytes, individual.violation);
  put(bytes, individual.state);
  put(bytes, individual.tag);
  put(bytes, individual.worker);
  put(bytes, individual.island);
  put(bytes, individual.moves);
  put(bytes, individual.seconds);
}

/// Reads what put() wrote; whatever is asked for after the end makes it bad, and is nothing.
class Reading {
 public:
  Reading(const std::byte* data, size_t size) : at_(data), end_(data + size) {}

  bool is_good() const noexcept { return good_; }
  bool at_end() const noexcept { return at_ == end_; }
  /// What was read makes no sense.
  void fail() noexcept { good_ = false; }

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (has(sizeof value)) {
      std::memcpy(&value, at_, sizeof value);
      at_ += sizeof value;
    }
    return value;
  }
  template <class T = double>
  std::vector<T> get_values() {
    const size_t count = get<uint32_t>();
    if (!has(count * sizeof(T))) return {};
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return values;
  }
  void get_bytes(void* to, size_t count) {
    if (!has(count)) return;
    if (count > 0) std::memcpy(to, at_, count);
    at_ += count;
  }
  std::string get_text() {
    const size_t count = get<uint32_t>();
    if (!has(count)) return {};
    std::string text(reinterpret_cast<const char*>(at_), count);
    at_ += count;
    return text;
  }
  std::vector<std::string> get_texts() {
    std::vector<std::string> texts;
    const auto count = get<uint32_t>();
    for (uint32_t i = 0; i < count && good_; ++i) texts.push_back(get_text());
    return texts;
  }
  Individual get_individual() {
    Individual individual;
    individual.trial = get<int64_t>();
    individual.values = get_values();
    individual.loss = get<double>();
    individual.objectives = get_values();
    individual.violation = get<double>();
    individual.state = get<TrialState>();
    individual.tag = get<Tag>();
    individual.worker = get<int32_t>();
    individual.island = get<int32_t>();
    individual.moves = get<int32_t>();
    individual.seconds = get<double>();
    return individual;
  }

 private:
  bool has(size_t bytes) {
    good_ = good_ && bytes <= static_cast<size_t>(end_ - at_);
    return good_;
  }

  const std::byte* at_;
  const std::byte* end_;
  bool good_ = true;
};

}  // namespace tw::search
