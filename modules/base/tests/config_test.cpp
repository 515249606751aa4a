// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <tw/base.hpp>

namespace config_test {

std::filesystem::path write_file(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path;
}

TEST(Config, BindsEveryTypeAndRemembersOrigins) {
  auto config = tw::Config::from_file(write_file("good.toml", "epochs = 3\nname = 'run'\n[optimizer]\nlr = 1\nnesterov = true\n"));
  config.set("optimizer.lr=0.25");
  int64_t epochs = 1;
  std::string name;
  double lr = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  config.bind("epochs", epochs);
  config.bind("name", name);
  config.bind("optimizer.lr", lr);
  config.bind("optimizer.momentum", momentum);
  config.bind("optimizer.nesterov", nesterov);
  config.finish();
  EXPECT_EQ(epochs, 3);
  EXPECT_EQ(name, "run");
  EXPECT_EQ(lr, 0.25);
  EXPECT_EQ(momentum, 0.9);
  EXPECT_TRUE(nesterov);
  ASSERT_EQ(config.entries().size(), 5U);
  EXPECT_EQ(config.entries()[0].origin, "good.toml:1");
  EXPECT_EQ(config.entries()[2].origin, "--set");
  EXPECT_EQ(config.entries()[3].origin, "default");
}

TEST(Config, AnIntegerServesWhereANumberIsWanted) {
  tw::Config config;
  config.set("lr=1");
  double lr = 0;
  config.bind("lr", lr);
  config.finish();
  EXPECT_EQ(lr, 1.0);
}

TEST(Config, BareWordsAreStrings) {
  tw::Config config;
  config.set("data.directory=/data/fashion");
  config.set("optimizer.name=adam");
  std::filesystem::path directory;
  std::string name = "sgd";
  config.bind("data.directory", directory);
  config.bind("optimizer.name", name, {"sgd", "adam"});
  config.finish();
  EXPECT_EQ(directory, "/data/fashion");
  EXPECT_EQ(name, "adam");
}

TEST(Config, TheFieldDecidesWhatAnAssignmentIs) {
  for (const char* text : {"42", "true", "1.50", "2024-10-01", "[1, 2]", "inf"}) {
    tw::Config config;
    config.set(tw::concat("name=", text));
    config.set(tw::concat("data.directory=", text));
    std::string name;
    std::filesystem::path directory;
    config.bind("name", name);
    config.bind("data.directory", directory);
    config.finish();
    EXPECT_EQ(name, text);
    EXPECT_EQ(directory, text);
    tw::Config again = tw::Config::from_file(write_file("again.toml", config.toml()));
    std::string back;
    again.bind("name", back);
    EXPECT_EQ(back, text) << config.toml();
  }
  tw::Config table;  // none of its values is the whole text
  table.set("model={name=42}");
  std::string of_model;
  table.bind("model.name", of_model);
  EXPECT_THROW(table.finish(), tw::ConfigError) << of_model;
  tw::Config config = tw::Config::from_file(write_file("typed.toml", "name = 42\n"));  // a file determines a value's type
  config.set("epochs=1.0");
  std::string name;
  int64_t epochs = 0;
  config.bind("name", name);
  config.bind("epochs", epochs);
  try {
    config.finish();
    ADD_FAILURE() << "no exception";
  } catch (const tw::ConfigError& error) {
    EXPECT_EQ(error.problems(),
              (std::vector<std::string>{"typed.toml:1: name must be a string, got 42", "--set: epochs must be an integer, got 1.0"}));
  }
}

TEST(Config, NamesAFolderThatIsGivenAsAFile) {
  try {
    (void)tw::Config::from_file(testing::TempDir());
    ADD_FAILURE() << "no exception";
  } catch (const tw::FileError& error) {
    EXPECT_NE(std::string(error.what()).find("is a folder, not a file"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)tw::Config::from_file("/does/not/exist"), tw::FileError);
}

TEST(Config, TakesTextAsItStands) {
  tw::Config config;
  for (const char* text : {"it's", "5", "true", "a=b", "\"quoted\"", ""}) {
    config.set_text("directory", text, "--data");
    std::filesystem::path directory;
    config.bind("directory", directory);
    config.finish();
    EXPECT_EQ(directory, text);
    EXPECT_EQ(config.entries().back().origin, "--data");
  }
}

TEST(Config, ReadsLists) {
  auto config =
      tw::Config::from_file(write_file("lists.toml", "sizes = [16, 3.5]\nnames = ['relu', true, 2, 1e-3]\nalone = 'x'\none = 7\nbad = ['a', 1]\n"));
  std::vector<double> sizes;
  std::vector<double> one;
  std::vector<double> bad{4};
  std::vector<double> missing{5};
  std::vector<std::string> names;
  std::vector<std::string> alone{"a", "b"};
  config.bind("sizes", sizes);
  config.bind("one", one);
  config.bind("missing", missing);
  config.bind("names", names);
  config.bind("alone", alone);
  EXPECT_EQ(sizes, (std::vector<double>{16, 3.5}));
  EXPECT_EQ(one, std::vector<double>{7});
  EXPECT_EQ(missing, std::vector<double>{5});
  EXPECT_EQ(names, (std::vector<std::string>{"relu", "true", "2", "0.001"}));
  EXPECT_EQ(alone, std::vector<std::string>{"x"});
  EXPECT_EQ(config.entries().front().value, "[16, 3.5]");
  config.bind("bad", bad);
  EXPECT_EQ(bad, std::vector<double>{4});
  try {
    config.finish();
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    ASSERT_EQ(error.problems().size(), 1U) << error.what();
    EXPECT_EQ(error.problems().front(), "lists.toml:5: bad must be a list of numbers, got [\"a\", 1]");
  }
}

TEST(Config, ATableIsTakenOutAndLaidOver) {
  auto config = tw::Config::from_file(write_file("table.toml", "a = 1\n[search.train]\na = 2\n[search.train.optimizer]\nlr = 3\n"));
  EXPECT_EQ(config.keys("search."), (std::vector<std::string>{"search.train.a", "search.train.optimizer.lr"}));
  tw::Config taken = config.extract("search.train");
  EXPECT_EQ(config.keys(), std::vector<std::string>{"a"});
  EXPECT_EQ(taken.keys(), (std::vector<std::string>{"a", "optimizer.lr"}));
  config.overlay(taken);
  int64_t a = 0;
  double lr = 0;
  config.bind("a", a);
  config.bind("optimizer.lr", lr);
  config.finish();
  EXPECT_EQ(a, 2);
  EXPECT_EQ(lr, 3);
  EXPECT_EQ(config.entries().front().origin, "table.toml:3");
}

/// Compares every value of both, whatever its key.
void expect_same(tw::Config a, tw::Config b) {
  ASSERT_EQ(a.keys(), b.keys());
  for (const std::string& key : a.keys()) {
    std::vector<std::string> here;
    std::vector<std::string> there;
    a.bind(key, here);
    b.bind(key, there);
    EXPECT_EQ(here, there) << key;
  }
  EXPECT_EQ(a.assignments(), b.assignments());
}

TEST(Config, WritesOddKeysAndNumbersAsItReadsThem) {
  tw::Config config;
  const std::vector<std::string> numbers{"1e-17", "0.1", "1e300", "-0.0", "1e22", "5e-324", "123456789.125", "3.0", "9007199254740993", "-1", "inf"};
  for (size_t i = 0; i < numbers.size(); ++i) config.set("numbers.n" + std::to_string(i) + '=' + numbers[i]);
  config.set("numbers.all=[1e-17, 2.5, 3.0, 4, 'x', true, 1e22]");
  config.set("none=[]");
  for (const char* key : {"a.b.c", "with space.x", "quo\"te", "", ".", "x..y", "\xc3\xa4", "line\nend"}) config.set_text(key, "text", "");
  expect_same(tw::Config::from_file(write_file("odd.toml", config.toml())), config);
  tw::Config assigned;
  for (const std::string& each : config.assignments()) {
    EXPECT_EQ(each.find('\n'), std::string::npos) << each;
    assigned.set(each);
  }
  expect_same(assigned, config);
}

TEST(Config, WritesWhatItReads) {
  tw::Config config;
  config.set("list=[1, 2.5, 'x']");
  config.set("optimizer.lr=1e-17");
  config.set("third=0.3333333333333333");
  config.set("whole=3");
  config.set("real=3.0");
  config.set("flag=true");
  config.set_text("text", "a \"b\" \\ \n\x7f \xc3\xa4", "");
  config.set_text("with space", "x", "");
  const std::string written = config.toml();
  EXPECT_EQ(tw::Config::from_file(write_file("written.toml", written)).toml(), written);
  EXPECT_NE(written.find("third = 0.3333333333333333\n"), std::string::npos) << written;
  EXPECT_NE(written.find("real = 3.0\n"), std::string::npos) << written;
  EXPECT_NE(written.find("whole = 3\n"), std::string::npos) << written;
  auto again = tw::Config::from_file(write_file("written.toml", written));
  std::string text;
  again.bind("text", text);
  EXPECT_EQ(text, "a \"b\" \\ \n\x7f \xc3\xa4");
}

TEST(Config, ReportsAllProblemsAtOnceWithTheNearestName) {
  auto config = tw::Config::from_file(write_file("bad.toml", "epoch = 3\n[optimizer]\nlr = 'fast'\nname = 'adm'\nbetas = [[0.9], 0.99]\n"));
  int64_t epochs = 1;
  double lr = 0.1;
  std::string name = "sgd";
  config.bind("epochs", epochs);
  config.bind("optimizer.lr", lr);
  config.bind("optimizer.name", name, {"sgd", "adam"});
  try {
    config.finish();
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.problems().size(), 4U) << text;
    EXPECT_NE(text.find("bad.toml:1: unknown key epoch; did you mean epochs?"), std::string::npos) << text;
    EXPECT_NE(text.find("optimizer.lr must be a number, got \"fast\""), std::string::npos) << text;
    EXPECT_NE(text.find("the nearest is \"adam\""), std::string::npos) << text;
    EXPECT_NE(text.find("bad.toml:5: optimizer.betas"), std::string::npos) << text;
  }
}

TEST(Config, SuggestsNothingWhereNoKeyIsKnown) {
  tw::Config config;
  config.set("epoch=3");
  try {
    config.finish();
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    EXPECT_EQ(error.problems(), std::vector<std::string>{"--set: unknown key epoch"});
  }
}

TEST(Config, ASyntaxErrorNamesLineAndColumn) {
  try {
    tw::Config::from_file(write_file("broken.toml", "epochs = 3\nname = = 1\n"));
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("broken.toml:2:"), std::string::npos) << error.what();
  }
}

TEST(Config, AFileOfAnotherVersionIsRefused) {
  auto config = tw::Config::from_file(write_file("versioned.toml", "version = 1\nepochs = 3\n"));
  int64_t epochs = 1;
  config.bind("epochs", epochs);
  config.finish();
  EXPECT_EQ(epochs, 3);
  EXPECT_FALSE(config.is_set("version"));
  for (const char* version : {"2", "0", "1.0", "\"1\""}) {
    try {
      tw::Config::from_file(write_file("newer.toml", tw::concat("eras = 3\nversion = ", version, '\n')));
      ADD_FAILURE() << "no exception";
    } catch (const tw::ConfigError& error) {
      const std::string expected = tw::concat("newer.toml:2: version is ", version, ", but only 1 is supported by Torchweave ", tw::version_string);
      EXPECT_EQ(error.problems(), std::vector<std::string>{expected});
    }
  }
}

TEST(Config, AMissingFileIsNamed) {
  EXPECT_THROW(tw::Config::from_file("no/such/file.toml"), tw::FileError);
  EXPECT_THROW(tw::Config().set("lr"), tw::ConfigError);
}

}  // namespace config_test
