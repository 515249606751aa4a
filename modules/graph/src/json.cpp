// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/graph.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw::graph {
namespace {

using Json = nlohmann::json;

constexpr std::array kinds = {"input", "parameter", "buffer", "constant", "computed"};

// A size that depends on the rows is {"fixed": 0, "per_row": 3}; others are numbers.
Json json_of(const Size& size) { return size.per_row == 0 ? Json(size.fixed) : Json{{"fixed", size.fixed}, {"per_row", size.per_row}}; }
Size size_from(const Json& json) {
  if (json.is_number_integer()) return {.fixed = json.get<int64_t>()};
  return {.fixed = json.at("fixed").get<int64_t>(), .per_row = json.at("per_row").get<int64_t>()};
}

// JSON has no infinities.
Json json_of(double value) { return std::isfinite(value) ? Json(value) : Json{{"float", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}}; }
double double_from(const Json& json) {
  return json.is_number() ? json.get<double>() : std::strtod(json.at("float").get<std::string>().c_str(), nullptr);
}

template <class T>
Json list_of(const char* of, const std::vector<T>& items) {
  Json list = Json::array();
  for (const auto& item : items) {
    if constexpr (std::is_same_v<T, Ref>) {
      list.push_back(item.value);
    } else if constexpr (std::is_same_v<T, bool>) {
      list.push_back(static_cast<bool>(item));
    } else {
      list.push_back(json_of(item));
    }
  }
  return {{of, list}};
}

RowPlace place_from(const Json& json) {
  return {.dimension = json.at("dimension").get<int>(), .outer = json.at("outer").get<int64_t>(), .inner = json.at("inner").get<int64_t>()};
}

Json json_of(const Argument& argument) {
  struct Visitor {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool value) const { return value; }
    Json operator()(const Size& value) const { return json_of(value); }
    Json operator()(double value) const { return json_of(value); }
    Json operator()(const std::string& value) const { return value; }
    Json operator()(const Device& value) const { return {{"device", value.name}}; }
    Json operator()(const Ref& value) const { return {{"value", value.value}}; }
    Json operator()(const Object& value) const { return {{"object", value.name}}; }
    Json operator()(const std::vector<Ref>& value) const { return list_of("values", value); }
    Json operator()(const std::vector<bool>& value) const { return list_of("bools", value); }
    Json operator()(const std::vector<Size>& value) const { return list_of("ints", value); }
    Json operator()(const std::vector<double>& value) const { return list_of("floats", value); }
  };
  return std::visit(Visitor{}, argument);
}

Argument argument_from(const Json& json) {
  if (json.is_null()) return std::monostate{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return size_from(json);
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.contains("per_row")) return size_from(json);
  if (json.contains("float")) return double_from(json);
  if (json.contains("device")) return Device{json.at("device").get<std::string>()};
  if (json.contains("value")) return Ref{json.at("value").get<int>()};
  if (json.contains("object")) return Object{json.at("object").get<std::string>()};
  if (json.contains("bools")) return json.at("bools").get<std::vector<bool>>();
  if (json.contains("values")) {
    std::vector<Ref> list;
    for (const Json& each : json.at("values")) list.push_back({each.get<int>()});
    return list;
  }
  if (json.contains("ints")) {
    std::vector<Size> list;
    for (const Json& each : json.at("ints")) list.push_back(size_from(each));
    return list;
  }
  std::vector<double> list;
  for (const Json& each : json.at("floats")) list.push_back(double_from(each));
  return list;
}

at::ScalarType dtype_from(const std::string& name) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    if (name == c10::toString(static_cast<at::ScalarType>(i))) return static_cast<at::ScalarType>(i);
  }
  throw Error(concat("in the graph's JSON, '", name, "' is not a dtype"));
}

Json json_of(const at::Tensor& tensor) {
  const at::Tensor flat = on_cpu(tensor.detach(), "a graph's JSON").contiguous().flatten();
  Json data = Json::array();
  if (at::isFloatingType(tensor.scalar_type())) {
    const at::Tensor doubles = flat.to(at::kDouble);
    for (int64_t i = 0; i < flat.numel(); ++i) data.push_back(json_of(doubles.const_data_ptr<double>()[i]));
  } else {
    const at::Tensor integers = flat.to(at::kLong);
    for (int64_t i = 0; i < flat.numel(); ++i) data.push_back(integers.const_data_ptr<int64_t>()[i]);
  }
  Json made{{"data", data}, {"is_number", tensor.unsafeGetTensorImpl()->is_wrapped_number()}};
  if (is_on_accelerator(tensor)) made["device"] = c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true);
  return made;
}

at::Tensor tensor_from(const Json& json, const Value& value) {
  std::vector<int64_t> sizes;
  for (const Size& size : value.sizes) sizes.push_back(size.fixed);
  const Json& data = json.at("data");
  at::Tensor flat;
  if (at::isFloatingType(value.dtype)) {
    std::vector<double> numbers;
    for (const Json& each : data) numbers.push_back(double_from(each));
    flat = at::tensor(numbers, at::kDouble);
  } else {
    flat = at::tensor(data.get<std::vector<int64_t>>(), at::kLong);
  }
  at::Tensor tensor = flat.to(value.dtype).reshape(sizes);
  if (json.contains("device")) tensor = tensor.to(current_device(c10::Device(json.at("device").get<std::string>()).type()));
  if (json.at("is_number").get<bool>() && tensor.dim() == 0) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Indices of existing values; -1 is accepted if `least` is -1.
std::vector<int> indices_from(const Json& json, size_t values, int least = 0) {
  auto indices = json.get<std::vector<int>>();
  for (const int index : indices) {
    if (index < least || index >= static_cast<int>(values)) throw Error(concat("the graph's JSON refers to a missing value: ", index));
  }
  return indices;
}

Graph read(const Json& json) {
  Graph graph;
  for (const Json& each : json.at("values")) {
    const auto kind = std::ranges::find(kinds, each.at("kind").get<std::string>());
    if (kind == kinds.end()) throw Error(concat("in the graph's JSON, '", each.at("kind").get<std::string>(), "' is not a kind of value"));
    std::vector<Size> sizes;
    for (const Json& size : each.at("sizes")) sizes.push_back(size_from(size));
    graph.values.push_back({.kind = static_cast<Value::Kind>(kind - kinds.begin()),
                            .name = each.at("name").get<std::string>(),
                            .dtype = dtype_from(each.at("dtype").get<std::string>()),
                            .sizes = std::move(sizes),
                            .order = each.at("order").get<std::vector<int64_t>>(),
                            .storage = each.at("storage").get<int64_t>(),
                            .of_batch = each.at("of_batch").get<bool>()});
  }
  const size_t values = graph.values.size();
  for (const Value& value : graph.values) {
    if (value.storage < -1 || value.storage >= static_cast<int64_t>(values))
      throw Error(concat("the graph's JSON refers to a missing storage: ", value.storage));
  }
  for (const Json& each : json.at("nodes")) {
    Node node{.op = each.at("op").get<std::string>(), .overload = each.at("overload").get<std::string>()};
    for (const Json& argument : each.at("arguments")) node.arguments.push_back(argument_from(argument));
    for (const int input : node.inputs()) {
      if (input >= static_cast<int>(values))
        throw Error(concat("in the graph's JSON, node ", graph.nodes.size(), " takes value ", input, ", which does not exist"));
    }
    node.outputs = indices_from(each.at("outputs"), values, -1);
    node.changes = indices_from(each.at("changes"), values);
    node.with_gradient = each.at("with_gradient").get<bool>();
    node.of_batch = each.at("of_batch").get<bool>();
    if (each.contains("answer")) node.answer = each.at("answer").get<bool>();
    if (each.contains("rows")) node.rows = place_from(each.at("rows"));
    if (each.contains("stream")) node.stream = each.at("stream").get<uint64_t>();
    graph.nodes.push_back(std::move(node));
  }
  graph.inputs = indices_from(json.at("inputs"), values);
  graph.outputs = indices_from(json.at("outputs"), values);
  if (json.contains("min_rows")) graph.min_rows = json.at("min_rows").get<int64_t>();
  for (const Json& each : json.at("constants")) {
    const int index = indices_from(Json::array({each.at("value")}), values)[0];
    graph.constants.emplace_back(index, tensor_from(each, graph.values[static_cast<size_t>(index)]));
  }
  return graph;
}

}  // namespace

std::string to_json(const Graph& graph) {
  Json values = Json::array();
  for (const Value& value : graph.values) {
    Json sizes = Json::array();
    for (const Size& size : value.sizes) sizes.push_back(json_of(size));
    values.push_back({{"kind", kinds.at(static_cast<size_t>(value.kind))},
                      {"name", value.name},
                      {"dtype", c10::toString(value.dtype)},
                      {"sizes", sizes},
                      {"order", value.order},
                      {"storage", value.storage},
                      {"of_batch", value.of_batch}});
  }
  Json nodes = Json::array();
  for (const Node& node : graph.nodes) {
    Json arguments = Json::array();
    for (const Argument& argument : node.arguments) arguments.push_back(json_of(argument));
    nodes.push_back({{"op", node.op},
                     {"overload", node.overload},
                     {"arguments", arguments},
                     {"outputs", node.outputs},
                     {"changes", node.changes},
                     {"with_gradient", node.with_gradient},
                     {"of_batch", node.of_batch}});
    if (node.answer) nodes.back()["answer"] = *node.answer;
    if (node.stream != 0) nodes.back()["stream"] = node.stream;
    if (node.rows) nodes.back()["rows"] = {{"dimension", node.rows->dimension}, {"outer", node.rows->outer}, {"inner", node.rows->inner}};
  }
  Json constants = Json::array();
  for (const auto& [value, tensor] : graph.constants) {
    constants.push_back(json_of(tensor));
    constants.back()["value"] = value;
  }
  return Json{{"values", values},         {"nodes", nodes},         {"inputs", graph.inputs},
              {"outputs", graph.outputs}, {"constants", constants}, {"min_rows", graph.min_rows}}
      .dump(1);
}

Graph graph_from_json(const std::string& json) {
  try {
    return read(Json::parse(json));
  } catch (const Json::exception& error) {
    throw Error(concat("the graph's JSON cannot be read: ", error.what()));
  }
}

}  // namespace tw::graph
