// Tables of text: separators, headers, numbers, and refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/csv_number.hpp>
#include <lockstep/data/files/csv_table.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include "stored_numbers.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

TEST(CsvTable, CellsMayBeQuotedAndSeparatedAsSpreadsheetsDo) {
  const ScratchFolder folder;
  const auto expect = [&](const std::string& text) {
    const CsvTable table({folder.write("t.csv", text)});
    EXPECT_EQ(table.columns(), (std::vector<std::string>{"size, cm", "kind"})) << text;
    EXPECT_EQ(table.rows(), 2) << text;
    EXPECT_EQ(all_of<float>(*table.numbers({"size, cm"}, true)), (std::vector<float>{1.5F, -2e3F}));
    EXPECT_EQ(table.labels("kind"), (std::vector<std::string>{"a \"b\"\nc", "d"})) << text;
  };
  expect("\"size, cm\",kind\n1.5,\"a \"\"b\"\"\nc\"\n-2e3,d\n");
  expect("\xef\xbb\xbf\"size, cm\",kind\r\n1.5 , \"a \"\"b\"\"\nc\" \r\n\r\n-2e3,d");
  expect("\"size, cm\";kind\n1.5;\"a \"\"b\"\"\nc\"\n-2e3;d\n");
  expect("\"size, cm\"\tkind\n1.5\t\"a \"\"b\"\"\nc\"\n-2e3\td\n");
  const CsvTable quotes({folder.write("q.csv", "\"a\"\"\n,;\";\"b;\";5\" size, cm\n1;2;3\n")});
  EXPECT_EQ(quotes.columns(), (std::vector<std::string>{"a\"\n,;", "b;", "5\" size, cm"}));
  const CsvTable semicolons({folder.write("s.csv", "x;y\n1;2\n")});
  EXPECT_EQ(semicolons.columns(), (std::vector<std::string>{"x", "y"}));
  const CsvTable tabs({folder.write("tabs.csv", "x\ty\n+1\t2\n")});
  EXPECT_EQ(all_of<std::int64_t>(*tabs.numbers({"y", "x"}, false)),
            (std::vector<std::int64_t>{2, 1}));
}

TEST(CsvTable, FaultsAreNamedWithFileAndLine) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& text) {
    const fs::path file = folder.write("t.csv", text);
    return test::message_of<InputError>([&] {
      static_cast<void>(CsvTable({file}).numbers({"x", "y"}, false));
    });
  };
  expect_says(refusal(""), "t.csv is empty");
  expect_says(refusal("x,y\n"), "has a header, but no line of samples");
  expect_says(refusal("x,x\n1,2\n"), "column x is named twice");
  expect_says(refusal("x,\n1,2\n"), "a column has no name");
  expect_says(refusal("x,y\n1,2\n3\n"), "line 3 of");
  expect_says(refusal("x,y\n1,2\n3\n"), "has 1 cell, but the header names 2 columns");
  expect_says(refusal("x,y\n1,\"2\n3,4\n"), "a quote that begins here does not end");
  expect_says(refusal("x,y\n1,\"2\"3\n"), "followed by \"3\"");
  expect_says(refusal("x,y\n1,2\n\n3,four\n"), "column y is \"four\", not a finite number");
  expect_says(refusal("x,y\n1,2\n\n3,four\n"), "line 4 of");
  expect_says(refusal("x,y\n1,\n"), "column y is empty");
  expect_says(refusal("x,y\n1,nan\n"), "column y is \"nan\"");
  expect_says(refusal("x,y\n1,1e40\n"), "column y is \"1e40\"");
  expect_says(refusal("x,yy\n1,2\n"), "has no column y");
  expect_says(refusal("x|y\n1|2\n"), "It has x|y. Separate cells by commas, semicolons or tabs.");
  const std::vector<fs::path> files{folder.write("a.csv", "x,y\n1,2\n"),
                                    folder.write("b.csv", "x,z\n1,2\n")};
  expect_says(test::message_of<InputError>([&] { static_cast<void>(CsvTable(files)); }),
              "must be the same");
}

TEST(CsvTable, ALineOfSamplesIsNotTakenForAHeader) {
  const ScratchFolder folder;
  const auto table = [&](const std::string& text, CsvHeader header = CsvHeader::automatic) {
    return CsvTable({folder.write("t.csv", text)}, header);
  };
  for (const std::string samples :
       {"0.346,1\n2,3\n", "1,1\n1,1\n", "5.1,3.5,setosa\n4.9,3.0,setosa\n", "1;2\n",
        "1,5;2,5;a\n3,5;4,5;b\n"}) {
    const std::string message = test::message_of<InputError>([&] { table(samples); });
    expect_says(message, "line 1 of ");
    expect_says(message, "looks like a line of samples");
    expect_says(message, "data.header = false");
    EXPECT_EQ(table(samples, CsvHeader::no).rows(), std::ranges::count(samples, '\n')) << samples;
  }
  const CsvTable years = table("2010,2011,country\n1,2,7\n", CsvHeader::yes);
  EXPECT_EQ(years.columns(), (std::vector<std::string>{"2010", "2011", "country"}));
  EXPECT_EQ(table("x,2011\na,2\nb,3\n", CsvHeader::yes).rows(), 2);
  EXPECT_EQ(table("2010,country\n1,2\n").rows(), 1) << "the second column has only a name";
  const CsvTable without = table("5.1,setosa\n4.9,virginica\n", CsvHeader::no);
  EXPECT_EQ(without.columns(), (std::vector<std::string>{"column_1", "column_2"}));
  EXPECT_EQ(all_of<float>(*without.numbers({"column_1"}, true)), (std::vector<float>{5.1F, 4.9F}));
  EXPECT_EQ(without.labels("column_2"), (std::vector<std::string>{"setosa", "virginica"}));
  expect_says(test::message_of<InputError>([&] { table("1,2\n3\n", CsvHeader::no); }), "line 2 of");
}

TEST(CsvTable, HeadersOfNumpyAndPandasAreReadOrNamed) {
  const ScratchFolder folder;
  // numpy.savetxt(..., delimiter=",", header="x,y") and DataFrame.to_csv().
  const CsvTable numpy({folder.write("n.csv", "# x,y\n1.000e+00,2.000e+00\n")});
  EXPECT_EQ(numpy.columns(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(CsvTable({folder.write("1.csv", "# 1,2\n1,2\n")}).columns(),
            (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(CsvTable({folder.write("2.csv", "#x,y\n1,2\n")}).columns()[0], "#x");
  const std::string message = test::message_of<InputError>(
      [&] { static_cast<void>(CsvTable({folder.write("p.csv", ",x\n0,1.5\n")})); });
  expect_says(message, "a column has no name");
  expect_says(message, "to_csv(index=False)");
}

TEST(CsvNumber, IsWhatProgramsWrite) {
  EXPECT_EQ(csv_number("+5"), 5.0);
  for (const char* text : {"+-5", "++5", "+", "-", "", "1.0D", "D5", "1D2", "0x10", "1,5", "inf",
                           "nan", "1e40", "1.0D+40", "1e400", "-1e400", "1e99999999999999999999"})
    EXPECT_FALSE(csv_number(text)) << text;
  EXPECT_EQ(csv_number("1e-400"), 0.0);
  EXPECT_EQ(csv_number("-12345678.5E-400"), 0.0);
  EXPECT_EQ(csv_number("1e-99999999999999999999"), 0.0);
  EXPECT_EQ(csv_number("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_FALSE(csv_number(std::string(400, '1')));
  EXPECT_FALSE(csv_number(std::string(400, '1') + "e-5"));
  EXPECT_EQ(csv_number(std::string(400, '1') + "e-400").value() > 0.1, true);
  EXPECT_EQ(csv_number("0.1500D+02"), 15.0);
  EXPECT_EQ(csv_number("-1.5d-01"), -0.15);
  EXPECT_EQ(csv_number("1,5", ','), 1.5);
  EXPECT_EQ(csv_number("-2,5e3", ','), -2500.0);
  EXPECT_EQ(csv_number("7", ','), 7.0);
  for (const char* text : {"1.5", "1.234,5", "1,2,3"}) EXPECT_FALSE(csv_number(text, ',')) << text;
}

TEST(CsvTable, DecimalCommasAreNumbersBetweenSemicolons) {
  const ScratchFolder folder;
  const CsvTable table({folder.write("t.csv", "x;y;kind\n1,5;2;a\n-0,25;3;b\n")});
  EXPECT_EQ(all_of<float>(*table.numbers({"x", "y"}, false)),
            (std::vector<float>{1.5F, 2, -0.25F, 3}));
  EXPECT_TRUE(table.is_numeric("x"));
  const std::string mixed = test::message_of<InputError>(
      [&] { static_cast<void>(CsvTable({folder.write("m.csv", "x;y\n1;2.5\n1,5;2\n")})); });
  expect_says(mixed, "line 3 of ");
  expect_says(mixed, "\"1,5\", a number with a decimal comma, but line 2 of ");
  expect_says(mixed, "\"2.5\", one with a point");
}

TEST(CsvTable, TheDecimalSignIsThatOfTheColumnsThatAreUsed) {
  const ScratchFolder folder;
  const fs::path file = folder.write("t.csv", "x;version;y\n1,5;2.5;3,5\n2;7.25;4\n");
  const CsvTable table({file}, CsvHeader::automatic, {.names = {"x", "y"}});
  EXPECT_EQ(all_of<float>(*table.numbers({"x", "y"}, false)),
            (std::vector<float>{1.5F, 3.5F, 2, 4}));
  const CsvTable other({file}, CsvHeader::automatic, {.names = {"version"}});
  EXPECT_EQ(all_of<float>(*other.numbers({"version"}, true)), (std::vector<float>{2.5F, 7.25F}));
  expect_says(test::message_of<InputError>([&] {
                static_cast<void>(CsvTable({file}, CsvHeader::automatic,
                                           {.names = {"version"}, .and_last = true}));
              }),
              "\"3,5\", a number with a decimal comma, but line 2 of ");
}

TEST(CsvTable, ARaggedLineWithoutAHeaderIsComparedWithTheFirst) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::vector<fs::path>& files) {
    return test::message_of<InputError>([&] { static_cast<void>(CsvTable(files, CsvHeader::no)); });
  };
  const fs::path a = folder.write("a.csv", "\n1,2\n3,4\n5\n"), b = folder.write("b.csv", "1,2\n"),
                 c = folder.write("c.csv", "1,2,3\n");
  EXPECT_EQ(refusal({a}), "line 4 of " + a.string() + " has 1 cell, but line 2 of " + a.string() +
                              ", the first of the table, has 2.");
  EXPECT_EQ(refusal({b, c}), "line 1 of " + c.string() + " has 3 cells, but line 1 of " +
                                 b.string() + ", the first of the table, has 2.");
}

// Each used to take minutes: columns and classes were looked up one by one.
TEST(CsvTable, ManyColumnsAndClassesTakeTimeInProportion) {
  const ScratchFolder folder;
  constexpr int n = 200'000;
  std::string header, line, classes = "x,kind\n";
  for (int i = 0; i < n; ++i) {
    header += fmt::format("{}c{}", i == 0 ? "" : ",", i);
    line += i == 0 ? "1" : ",1";
    classes += fmt::format("1,k{}\n", i);
  }
  DataOptions options =
      options_of(CsvOptions(), {folder.write("wide.csv", header + "\n" + line + "\n")});
  const auto start = std::chrono::steady_clock::now();
  const DataFiles wide(options, Split::train);
  const auto features = wide.features(wide.completed(options, TargetKind::values));
  EXPECT_EQ(features->row_elements(), n - 1);
  EXPECT_LT(features->description().size(), 1000U) << "names are not listed whole";
  options.path = {folder.write("classes.csv", classes)};
  const DataFiles many(options, Split::train);
  const DataOptions found = many.completed(options, TargetKind::classes);
  EXPECT_EQ(std::ssize(found.class_names), n);
  EXPECT_EQ(many.targets(found)->rows(), n);
  const CsvTable other({folder.write("other.csv", "x,kind\n1,new\n")});
  const std::string message = test::message_of<InputError>(
      [&] { static_cast<void>(other.codes("kind", found.class_names)); });
  expect_says(message, "and 199992 more");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Names are stored in decks and checkpoints, which are UTF-8 without NUL.
TEST(CsvTable, NamesThatAreNoUtf8AreRefusedWithTheirPlace) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& text) {
    const fs::path file = folder.write("l1.csv", text);
    return test::message_of<InputError>(
        [&] { static_cast<void>(CsvTable({file}).labels("kind")); });
  };
  const std::string header = refusal("caf\xe9,kind\n1,a\n");
  expect_says(header, "line 1 of ");
  expect_says(header, "l1.csv: byte 0xe9 is not UTF-8 text. Save the table as UTF-8");
  const std::string label = refusal("x,kind\n1,tea\n2,caf\xe9\n");
  expect_says(label, "line 3 of ");
  expect_says(label, "l1.csv: byte 0xe9 is not UTF-8 text. Save the table as UTF-8");
  const std::string nul(1, '\0');
  expect_says(refusal("x" + nul + ",kind\n1,a\n"), "l1.csv: a name holds a NUL byte");
  expect_says(refusal("x,kind\n1,a" + nul + "\n"), "l1.csv: a name holds a NUL byte");
  for (const std::string mark : {"\xff\xfe", "\xfe\xff"})
    expect_says(refusal(mark + "x" + nul + ",\n"),
                "l1.csv is UTF-16 text. Save the table as UTF-8");
  const CsvTable table({folder.write("u8.csv", "x,kind\n1,caf\xc3\xa9\n2,th\xe9\n")});
  const std::string code = test::message_of<InputError>(
      [&] { static_cast<void>(table.codes("kind", {"caf\xc3\xa9"})); });
  expect_says(code, "u8.csv: byte 0xe9 is not UTF-8 text");
  EXPECT_EQ(CsvTable({folder.write("u8.csv", "x,kind\n1,caf\xc3\xa9\n")}).labels("kind"),
            std::vector<std::string>{"caf\xc3\xa9"});
}

TEST(CsvTable, IntegersThatAreNotExactAreNoLabels) {
  const ScratchFolder folder;
  for (const std::string large : {"99999999999999999999", "1e19", "-1e19", "9007199254740993"}) {
    const CsvTable table({folder.write("t.csv", "x,kind\n1,0\n2," + large + "\n")});
    const auto array = table.numbers({"kind"}, true);
    const std::string message =
        test::message_of<InputError>([&] { static_cast<void>(all_of<std::int64_t>(*array)); });
    expect_says(message, "column kind of ");
    expect_says(message, "sample 1 is ");
    expect_says(message, "lie below 2^53");
    EXPECT_EQ(all_of<float>(*array).at(1), std::stof(large)) << "a value may be large";
  }
  const CsvTable table({folder.write("t.csv", "kind\n9007199254740991\n-9007199254740991\n")});
  EXPECT_EQ(all_of<std::int64_t>(*table.numbers({"kind"}, true)),
            (std::vector<std::int64_t>{9007199254740991, -9007199254740991}));
}

TEST(CsvTable, WordsForMissingValuesAreNoClasses) {
  const ScratchFolder folder;
  for (const std::string word : {"NA", "nan", "NULL", "?", "#N/A"}) {
    const CsvTable table({folder.write("t.csv", "x,kind\n1,setosa\n2," + word + "\n")});
    const std::string said =
        test::message_of<InputError>([&] { static_cast<void>(table.labels("kind")); });
    expect_says(said, "line 3 of");
    expect_says(said, "column kind is \"" + word + "\", a word for a missing value");
    EXPECT_EQ(all_of<std::int64_t>(*table.codes("kind", {word, "setosa"})),
              (std::vector<std::int64_t>{1, 0}))
        << "names that are given";
  }
  const CsvTable elements({folder.write("e.csv", "x,kind\n1,Na\n2,None\n")});
  EXPECT_EQ(elements.labels("kind"), (std::vector<std::string>{"Na", "None"}));
}

}  // namespace
}  // namespace lockstep
