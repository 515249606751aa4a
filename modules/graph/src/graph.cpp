// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/graph.hpp>

#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw::graph {
namespace {

/// Writes arguments and shapes.
struct Writer {
  const Graph& graph;
  std::ostream& out;

  void list(const auto& items) const {
    out << '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out << ", ";
      (*this)(items[i]);
    }
    out << ']';
  }
  void operator()(std::monostate) const { out << "none"; }
  void operator()(bool value) const { out << (value ? "true" : "false"); }
  void operator()(const Size& value) const {
    if (value.per_row == 0) {
      out << value.fixed;
      return;
    }
    if (value.per_row != 1) out << value.per_row << ' ';
    out << 'n';
    if (value.fixed != 0) out << (value.fixed > 0 ? " + " : " - ") << std::abs(value.fixed);
  }
  void operator()(double value) const { out << value << (std::isfinite(value) && std::trunc(value) == value ? ".0" : ""); }
  void operator()(const std::string& value) const { out << '"' << value << '"'; }
  void operator()(const Device& value) const { out << value.name; }
  void operator()(const Object& value) const { out << value.name; }
  void operator()(const Ref& ref) const {
    if (ref.value < 0) {
      out << "none";
      return;
    }
    const Value& value = graph.values[static_cast<size_t>(ref.value)];
    value.name.empty() ? out << '%' << ref.value : out << value.name;
  }
  void operator()(const std::vector<Ref>& value) const { list(value); }
  void operator()(const std::vector<bool>& value) const {
    out << '[' << joined(value, ", ", [](bool each) { return each ? "true" : "false"; }) << ']';
  }
  void operator()(const std::vector<Size>& value) const { list(value); }
  void operator()(const std::vector<double>& value) const { list(value); }
  void type(const char* before, const Value& value) const {
    out << before << dtype_name(value.dtype) << ' ';
    (*this)(value.sizes);
  }
};

const char* kind_name(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::input: return "input";
    case Value::Kind::parameter: return "parameter";
    case Value::Kind::buffer: return "buffer";
    case Value::Kind::constant: return "constant";
    case Value::Kind::computed: return "computed";
  }
  return "unknown";
}

void expect_values(const Graph& graph) {
  const auto expect = [&](int value, const auto&... who) {
    if (value < -1 || value >= static_cast<int>(graph.values.size())) {
      throw Error(concat(who..., " value ", value, ", but the graph has ", graph.values.size()));
    }
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const int input : node.inputs()) expect(input, "operator ", i, ", ", node.op, ": it takes");
    for (const int output : node.outputs) expect(output, "operator ", i, ", ", node.op, ": it returns");
  }
  for (const int output : graph.outputs) expect(output, "the graph returns");
}

}  // namespace

int Value::row_dimension() const noexcept {
  int found = -1;
  for (size_t d = 0; of_batch && d < sizes.size(); ++d) {
    if (sizes[d].per_row == 0) continue;
    if (found >= 0 || sizes[d] != Size{.fixed = 0, .per_row = 1}) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

std::vector<int> Node::inputs() const {
  std::vector<int> found;
  for (const Argument& argument : arguments) {
    if (const auto* ref = std::get_if<Ref>(&argument); ref != nullptr && ref->value >= 0) found.push_back(ref->value);
    if (const auto* refs = std::get_if<std::vector<Ref>>(&argument)) {
      for (const Ref& each : *refs) {
        if (each.value >= 0) found.push_back(each.value);
      }
    }
  }
  return found;
}

std::vector<int> Graph::producers() const {
  std::vector<int> by_value(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const int output : nodes[i].outputs) {
      if (output >= 0) by_value[static_cast<size_t>(output)] = static_cast<int>(i);
    }
  }
  return by_value;
}

void replace_objects(Graph& graph, const std::function<c10::IValue(const Object&)>& replacement) {
  for (Node& node : graph.nodes) {
    for (Argument& argument : node.arguments) {
      if (auto* object = std::get_if<Object>(&argument)) object->value = replacement(*object);
    }
  }
}

std::string to_text(const Graph& graph) {
  expect_values(graph);
  TextWriter out;
  const Writer write{graph, out};
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == Value::Kind::computed) continue;
    out << kind_name(value.kind) << ' ';
    write(Ref{static_cast<int>(i)});
    write.type("  # ", value);
    out << '\n';
  }
  for (const Node& node : graph.nodes) {
    const char* separator = "";
    for (const int output : node.outputs) {
      out << std::exchange(separator, ", ");
      write(Ref{output});
    }
    if (node.answer) out << (*node.answer ? "true" : "false");
    out << " = " << node.op << (node.overload.empty() ? "" : ".") << node.overload << '(';
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (i > 0) out << ", ";
      std::visit(write, node.arguments[i]);
    }
    out << ')';
    separator = "  # ";
    for (const int output : node.outputs) {
      if (output >= 0) write.type(std::exchange(separator, ", "), graph.values[static_cast<size_t>(output)]);
    }
    out << '\n';
  }
  out << "outputs";
  for (const int output : graph.outputs) {
    out << ' ';
    write(Ref{output});
  }
  out << '\n';
  return std::move(out).str();
}

std::string Graph::hash() const {
  Graph without_constants = *this;
  without_constants.constants.clear();
  return hex_text(content_hash(to_json(without_constants)));
}

}  // namespace tw::graph
