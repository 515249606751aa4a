// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <ATen/core/List.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw::graph {
namespace {

std::vector<Size> fixed_sizes(const std::vector<int64_t>& numbers) {
  std::vector<Size> sizes;
  for (const int64_t number : numbers) sizes.push_back({.fixed = number});
  return sizes;
}

/// Names an accelerator by its kind only, since each rank has its own device. A graph captured without memory is for the CPU.
Device device_of(c10::Device device) {
  if (device.is_meta()) return {"cpu"};
  if (!at::accelerator::isAccelerator(device.type())) return {device.str()};
  if (device.has_index()) expect_current(device);
  return {c10::DeviceTypeName(device.type(), /*lower_case=*/true)};
}

/// @param value an instance of a custom class
Object object_of(const c10::IValue& value) {
  const std::shared_ptr<c10::ClassType> type = value.toObjectRef().type();
  torch::jit::Function* const name = type->findMethod("name");
  if (name == nullptr) throw Error(concat("one of its arguments is of class ", type->name()->name(), ", which has no method name()"));
  torch::jit::Stack stack{value};
  name->run(stack);
  return {.name = stack.back().toStringRef(), .value = value};
}

c10::Device current(const Device& device) {
  const c10::Device named(device.name);
  return named.has_index() ? named : current_device(named.type());
}

}  // namespace

void expect_current(c10::Device device) {
  if (!at::accelerator::isAccelerator(device.type()) || device == current_device(device.type())) return;
  throw Error(concat("it uses ", device.str(), ", but ", current_device(device.type()).str(),
                     " is the current device: all tensors of a graph on accelerators must be on the current device"));
}

Argument argument_of(const c10::IValue& value, const std::function<int(const at::Tensor&)>& ref) {
  if (value.isNone()) return std::monostate{};
  if (value.isTensor()) return Ref{ref(value.toTensor())};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return Size{.fixed = value.toInt()};
  if (value.isSymInt()) return Size{.fixed = value.toSymInt().guard_int(__FILE__, __LINE__)};
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return device_of(value.toDevice());
  if (value.isIntList()) return fixed_sizes(value.toIntVector());
  if (value.isSymIntList()) {
    std::vector<int64_t> numbers;
    for (const c10::SymInt& number : value.toSymIntVector()) numbers.push_back(number.guard_int(__FILE__, __LINE__));
    return fixed_sizes(numbers);
  }
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (value.isTensorList()) {
    std::vector<Ref> refs;
    for (const at::Tensor& tensor : value.toTensorVector()) refs.push_back({ref(tensor)});
    return refs;
  }
  if (value.isList() && std::ranges::all_of(value.toListRef(), [](const c10::IValue& each) { return each.isNone() || each.isTensor(); })) {
    std::vector<Ref> refs;  // entries may be none; TorchScript's lists lack their element type
    for (const c10::IValue& each : value.toListRef()) refs.push_back({each.isNone() ? -1 : ref(each.toTensor())});
    return refs;
  }
  if (value.isCustomClass()) return object_of(value);
  throw Error(concat("one of its arguments is a ", value.tagKind(), ", which a graph cannot record"));
}

Size with_rows(int64_t size, int64_t rows, int64_t other, int64_t other_rows) {
  if (size == other) return {.fixed = size};
  const int64_t apart = other_rows - rows;
  if ((other - size) % apart != 0)
    throw Error(concat("a size is not linear in the rows, with a whole number per row: it is ", size, " for ", rows, " rows and ", other, " for ",
                       other_rows));
  const int64_t per_row = (other - size) / apart;
  return {.fixed = size - per_row * rows, .per_row = per_row};
}

Argument with_rows(const Argument& argument, int64_t rows, const Argument& other, int64_t other_rows) {
  if (argument == other) return argument;
  const auto* one = std::get_if<Size>(&argument);
  const auto* another = std::get_if<Size>(&other);
  if (one != nullptr && another != nullptr) return with_rows(one->fixed, rows, another->fixed, other_rows);
  const auto* list = std::get_if<std::vector<Size>>(&argument);
  const auto* other_list = std::get_if<std::vector<Size>>(&other);
  if (list == nullptr || other_list == nullptr || list->size() != other_list->size()) {
    throw Error("an argument that is not a size depends on the rows of the batch");
  }
  std::vector<Size> sizes;
  for (size_t i = 0; i < list->size(); ++i) sizes.push_back(with_rows((*list)[i].fixed, rows, (*other_list)[i].fixed, other_rows));
  return sizes;
}

void expect_fit(const Size& size, int64_t rows, int64_t found) {
  if (size.of(rows) == found) return;
  throw Error(concat("a size is ", found, " for ", rows, rows == 1 ? " row" : " rows", ", where other numbers of rows predict ", size.of(rows),
                     ": it is not linear in the rows"));
}

void expect_fit(const Argument& argument, int64_t rows, const Argument& found) {
  const auto fixed = [](const Argument& each) { return std::get_if<Size>(&each); };
  const auto list = [](const Argument& each) { return std::get_if<std::vector<Size>>(&each); };
  if (fixed(argument) != nullptr && fixed(found) != nullptr) {
    expect_fit(*fixed(argument), rows, fixed(found)->fixed);
  } else if (list(argument) != nullptr && list(found) != nullptr && list(argument)->size() == list(found)->size()) {
    for (size_t i = 0; i < list(argument)->size(); ++i) expect_fit((*list(argument))[i], rows, (*list(found))[i].fixed);
  } else if (argument != found) {
    throw Error("an argument that is not a size depends on the rows of the batch");
  }
}

bool depends_on_rows(const Argument& argument) {
  const auto depends = [](const Size& size) { return size.per_row != 0; };
  if (const auto* size = std::get_if<Size>(&argument)) return depends(*size);
  const auto* list = std::get_if<std::vector<Size>>(&argument);
  return list != nullptr && std::ranges::any_of(*list, depends);
}

c10::IValue ivalue_of(const Argument& argument, int64_t rows) {
  struct Visitor {
    int64_t rows;
    c10::IValue operator()(std::monostate) const { return {}; }
    c10::IValue operator()(bool value) const { return value; }
    c10::IValue operator()(Size value) const { return value.of(rows); }
    c10::IValue operator()(double value) const { return value; }
    c10::IValue operator()(const std::string& value) const { return value; }
    c10::IValue operator()(const Device& value) const { return current(value); }
    c10::IValue operator()(const Ref&) const { return {}; }
    c10::IValue operator()(const Object& value) const { return value.value; }
    c10::IValue operator()(const std::vector<Ref>&) const { return {}; }
    c10::IValue operator()(const std::vector<bool>& value) const {
      c10::List<bool> list;
      for (const bool each : value) list.push_back(each);
      return list;
    }
    c10::IValue operator()(const std::vector<Size>& value) const {
      std::vector<int64_t> list;
      for (const Size& each : value) list.push_back(each.of(rows));
      return list;
    }
    c10::IValue operator()(const std::vector<double>& value) const { return value; }
  };
  return std::visit(Visitor{rows}, argument);
}

}  // namespace tw::graph
