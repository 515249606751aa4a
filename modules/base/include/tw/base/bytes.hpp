// SPDX-License-Identifier: Apache-2.0
// Values as flat bytes, for messages between ranks and for files: numbers, texts, lists, and records of these.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <tw/base/contract.hpp>
#include <type_traits>
#include <vector>

namespace tw {

using Bytes = std::vector<std::byte>;

/// The fields of record `T` in order, as pointers to members. By default they are `T::fields`, a static constexpr tuple. Specialize Fields for a
/// struct without this member.
template <class T>
struct Fields {};
template <class T>
  requires requires { T::fields; }
struct Fields<T> {
  static constexpr auto all = T::fields;
};

template <class T>
concept Record = requires { Fields<T>::all; };
/// A type that is copied byte by byte. Pointers and views are not flat, because they do not own what they refer to.
template <class T>
concept Flat = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_array_v<T> && !Record<T> && !requires(T value) { value.data(); };

/// Appends `value` to `bytes`: a record field by field, a text or list as its size (uint32) and its elements.
/// @throws ContractError for a text or list of 2^32 elements or more
template <class T>
void put(Bytes& bytes, const T& value) {
  const auto append = [&](const void* from, size_t count) {
    const auto* begin = static_cast<const std::byte*>(from);
    if (count > 0) bytes.insert(bytes.end(), begin, begin + count);
  };
  if constexpr (Record<T>) {
    std::apply([&](auto... field) { (put(bytes, value.*field), ...); }, Fields<T>::all);
  } else if constexpr (Flat<T>) {
    append(&value, sizeof value);
  } else {
    TW_EXPECTS(value.size() <= std::numeric_limits<uint32_t>::max(), "a list of ", value.size(), " elements cannot be packed: the limit is 2^32 - 1");
    put(bytes, static_cast<uint32_t>(value.size()));
    if constexpr (Flat<typename T::value_type>) {
      append(value.data(), value.size() * sizeof(typename T::value_type));
    } else {
      for (const auto& each : value) put(bytes, each);
    }
  }
}

/// Reads what put() wrote. A read past the end fails, and so do all later reads. Do not use the value that a failed read returns: it is incomplete.
class ByteReader {
 public:
  ByteReader(const std::byte* data, size_t size) : at_(data), end_(data + size) {}
  explicit ByteReader(std::string_view bytes) : ByteReader(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()) {}

  bool is_good() const noexcept { return good_; }
  bool at_end() const noexcept { return at_ == end_; }
  /// Marks the input as invalid, so that later reads fail.
  void fail() noexcept { good_ = false; }

  template <class T>
  T get() {
    T value{};
    if constexpr (Record<T>) {
      std::apply([&](auto... field) { ((value.*field = get<std::remove_cvref_t<decltype(value.*field)>>()), ...); }, Fields<T>::all);
    } else if constexpr (Flat<T>) {
      get_bytes(&value, sizeof value);
    } else {
      using Element = typename T::value_type;
      const size_t count = get<uint32_t>();
      if constexpr (Flat<Element>) {
        if (!has(count * sizeof(Element))) return value;
        value.resize(count);
        get_bytes(value.data(), count * sizeof(Element));
      } else {
        for (size_t i = 0; i < count && good_; ++i) value.push_back(get<Element>());
      }
    }
    return value;
  }
  void get_bytes(void* to, size_t count) {
    if (!has(count) || count == 0) return;
    std::memcpy(to, at_, count);
    at_ += count;
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

/// The bytes of `value` as a string, for example for broadcast_string() of <tw/comm/objects.hpp>.
template <class T>
std::string packed(const T& value) {
  Bytes bytes;
  put(bytes, value);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
/// Restores the value from the result of packed(). @throws ContractError if `bytes` are too few or too many
template <class T>
T unpacked(std::string_view bytes) {
  ByteReader reader(bytes);
  T value = reader.get<T>();
  TW_ASSERT(reader.is_good() && reader.at_end());
  return value;
}

}  // namespace tw
