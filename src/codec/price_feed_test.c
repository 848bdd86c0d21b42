/* Histories of prices in four forms: what is read, what is passed over, what is a fault. */
#include "base/mem.h"
#include "codec/price_feed_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct price_feed feed;
static struct error error;

static bool read_text(const char *text)
{
    return price_feed_read(text, strlen(text), &feed, &error);
}

static void assert_counts(uint32_t points, uint32_t passed, uint32_t repeats, uint32_t faults)
{
    assert_int_equal(feed.point_count, points);
    assert_int_equal(feed.passed, passed);
    assert_int_equal(feed.repeats, repeats);
    assert_int_equal(feed.fault_count, faults);
    assert_int_equal(feed.rows, points + passed + repeats + faults);
}

static void assert_fault(uint32_t at, uint32_t row, const char *text)
{
    assert_true(at < feed.fault_count);
    assert_int_equal(feed.faults[at].row, row);
    if (strstr(feed.faults[at].text, text) == NULL) fail_msg("%s", feed.faults[at].text);
}

static void assert_point(uint32_t at, const char *zone, int64_t at_us, int64_t usd_micros)
{
    assert_string_equal(feed.points[at].zone, zone);
    assert_int_equal(feed.points[at].at_us, at_us);
    assert_int_equal(feed.points[at].usd_micros_per_hour, usd_micros);
}

static void prices(void **state)
{
    (void)state;
    int64_t micros;
    assert_true(feed_price("0.918", &micros));
    assert_int_equal(micros, 918000);
    assert_true(feed_price("12", &micros));
    assert_int_equal(micros, 12000000);
    assert_true(feed_price(".0000005", &micros));
    assert_int_equal(micros, 1);
    assert_true(feed_price("1.00000049999", &micros));
    assert_int_equal(micros, 1000000);
    static const char *const bad[] = {"",    ".",   "-1",  "+1",
                                      "1e3", "nan", "1,5", "999999999999999999999"};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (feed_price(bad[i], &micros)) fail_msg("%s is a price", bad[i]);
}

static void aws(void **state)
{
    (void)state;
    assert_true(read_text(
        "{\"SpotPriceHistory\": ["
        "{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"p3.2xlarge\", "
        "\"ProductDescription\": "
        "\"Linux/UNIX\", \"SpotPrice\": \"0.918000\", \"Timestamp\": \"2023-02-15T10:00:00.000Z\"},"
        "{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"p3.2xlarge\", "
        "\"ProductDescription\": "
        "\"Linux/UNIX\", \"SpotPrice\": \"0.950000\", \"Timestamp\": "
        "\"2023-02-15T09:00:00+00:00\"},"
        "{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"p3.2xlarge\", "
        "\"ProductDescription\": "
        "\"Windows\", \"SpotPrice\": \"2\", \"Timestamp\": \"2023-02-15T09:00:00Z\"},"
        "{\"AvailabilityZone\": \"us-east-1a\", \"InstanceType\": \"p3.2xlarge\", \"SpotPrice\": "
        "\"free\", "
        "\"Timestamp\": \"2023-02-15T09:00:00Z\"},"
        "{\"InstanceType\": \"p3.2xlarge\", \"SpotPrice\": \"1\", \"Timestamp\": "
        "\"2023-02-15T09:00:00Z\"},"
        "7]}"));
    assert_int_equal(feed.format, FEED_AWS);
    assert_counts(2, 1, 0, 3);
    assert_point(0, "us-east-1a", INT64_C(1676451600000000), 950000);
    assert_point(1, "us-east-1a", INT64_C(1676455200000000), 918000);
    assert_true(feed.points[0].is_spot);
    assert_fault(0, 4, "SpotPrice is not a price: \"free\"");
    assert_fault(1, 5, "no zone");
    assert_fault(2, 6, "not an object");
    price_feed_close(&feed);
}

static void azure(void **state)
{
    (void)state;
    assert_true(read_text(
        "{\"BillingCurrency\":\"USD\",\"Items\":["
        "{\"currencyCode\":\"USD\",\"retailPrice\":0.6,\"armRegionName\":\"eastus\",\"type\":"
        "\"Consumption\","
        "\"effectiveStartDate\":\"2024-01-01T00:00:00Z\",\"skuName\":\"NC6 "
        "Spot\",\"meterName\":\"NC6 Spot\","
        "\"productName\":\"NC Series\",\"unitOfMeasure\":\"1 "
        "Hour\",\"armSkuName\":\"Standard_NC6\"},"
        "{\"currencyCode\":\"USD\",\"retailPrice\":3.06,\"armRegionName\":\"eastus\",\"type\":"
        "\"Consumption\","
        "\"effectiveStartDate\":\"2024-01-01T00:00:00Z\",\"skuName\":\"NC6\",\"meterName\":\"NC6\","
        "\"productName\":\"NC Series\",\"unitOfMeasure\":\"1 "
        "Hour\",\"armSkuName\":\"Standard_NC6\"},"
        "{\"retailPrice\":3,\"productName\":\"NC Series Windows\"},"
        "{\"retailPrice\":3,\"skuName\":\"NC6 Low Priority\"},"
        "{\"retailPrice\":3,\"unitOfMeasure\":\"1 Month\"},"
        "{\"currencyCode\":\"EUR\",\"retailPrice\":3},{\"retailPrice\":\"3\"},"
        "{\"retailPrice\":1e300},{\"retailPrice\":0,\"armRegionName\":\"eastus\",\"armSkuName\":"
        "\"x\","
        "\"effectiveStartDate\":\"2024-01-01T00:00:00Z\"}],\"NextPageLink\":null}"));
    assert_int_equal(feed.format, FEED_AZURE);
    assert_counts(2, 3, 0, 4);
    assert_int_equal(feed.points[0].is_spot, 0);
    assert_int_equal(feed.points[0].usd_micros_per_hour, 3060000);
    assert_int_equal(feed.points[1].is_spot, 1);
    assert_int_equal(price_feed_series_end(&feed, 0), 1);
    assert_fault(0, 6, "not a price in USD");
    assert_fault(3, 9, "above 0");
    price_feed_close(&feed);
}

static void gcp(void **state)
{
    (void)state;
    assert_true(read_text(
        "{\"skus\":[{\"description\":\"Nvidia Tesla V100 GPU attached to Spot Preemptible "
        "VMs\",\"category\":"
        "{\"usageType\":\"Preemptible\"},\"serviceRegions\":[\"us-east1\",\"us-west1\"],"
        "\"pricingInfo\":[{"
        "\"effectiveTime\":\"2024-05-01T00:00:00Z\",\"pricingExpression\":{\"usageUnit\":\"h\","
        "\"tieredRates\":"
        "[{\"unitPrice\":{\"units\":\"1\",\"nanos\":240000500}}]}}]},"
        "{\"description\":\"x\",\"category\":{\"usageType\":\"Commit1Yr\"}},"
        "{\"description\":\"storage\",\"pricingInfo\":[{\"pricingExpression\":{\"usageUnit\":"
        "\"GiBy.mo\"}}]},"
        "{\"description\":\"x\",\"serviceRegions\":[\"us-east1\"]},"
        "{\"description\":\"x\",\"serviceRegions\":[\"r\"],\"pricingInfo\":[{\"pricingExpression\":"
        "{\"tieredRates\":[{\"unitPrice\":{\"units\":\"0\",\"nanos\":-5}}]}}]}]}"));
    assert_int_equal(feed.format, FEED_GCP);
    assert_counts(2, 2, 0, 2);
    assert_point(0, "us-east1", INT64_C(1714521600000000), 1240001);
    assert_point(1, "us-west1", INT64_C(1714521600000000), 1240001);
    price_feed_close(&feed);
}

static void csv(void **state)
{
    (void)state;
    assert_true(read_text("\xef\xbb\xbf"
                          "cloud,zone_or_region,instance_type,t_utc,usd_per_hour\r\n"
                          "gcp,\"us, \"\"east\"\"\",a,2020-01-02,0.50\r\n"
                          "gcp,us,a,2020-01-03,0.7\n"
                          "\n"
                          "gcp,us,a,2020-01-01,0.6\n"
                          "gcp,us,a,2020-01-03,0.7\n"
                          "gcp,us,a,2020-01-03,0.8\n"
                          "gcp,us,a,2020-01-04,-0.8\n"
                          "gcp,us,a,2020-01-04\n"
                          "gcp,us,,2020-01-04,1\n"
                          "gcp,us,a,2020-01-04,0\n"
                          "gcp,us,a,soon,1"));
    assert_int_equal(feed.format, FEED_CSV);
    assert_counts(3, 0, 1, 6);
    assert_point(0, "us", INT64_C(1577836800000000), 600000);
    assert_point(1, "us", INT64_C(1578009600000000), 700000);
    assert_point(2, "us, \"east\"", INT64_C(1577923200000000), 500000);
    assert_int_equal(price_feed_series_end(&feed, 0), 2);
    assert_fault(0, 8, "not a price: \"-0.8\"");
    assert_fault(1, 9, "4 cells under 5 heads");
    assert_fault(2, 10, "no type");
    assert_fault(3, 11, "above 0");
    assert_fault(4, 12, "not a time: \"soon\"");
    assert_fault(5, 7, "another price for the time of row 3");
    price_feed_close(&feed);
}

/* A name that would steer a terminal is no name. */
static void names_with_control_bytes_are_malformed(void **state)
{
    (void)state;
    assert_true(read_text("time,zone,type,price\n2020-01-01,z\033[2J,i,1\n2020-01-01,z,i\x7f,1\n"
                          "2020-01-01,z,i,1\n"));
    assert_counts(1, 0, 0, 2);
    assert_fault(0, 2, "zone has control bytes: \"z?[2J\"");
    assert_fault(1, 3, "type has control bytes: \"i?\"");
    price_feed_close(&feed);
}

static void csv_kinds(void **state)
{
    (void)state;
    assert_true(read_text("time,zone,type,price,kind\n2020-01-01,z,i,1,spot\n"
                          "2020-01-01,z,i,2,on_demand\n2020-01-01,z,j,3,\n"
                          "2020-01-01,z,i,0,owned\n2020-01-01,z,i,4,on demand\n"
                          "2020-01-02,z,i,5,on-demand\n"));
    assert_counts(4, 1, 0, 1);
    assert_fault(0, 6, "not a kind of capacity: \"on demand\"");
    uint32_t spots = 0;
    for (uint32_t i = 0; i < feed.point_count; i++) spots += feed.points[i].is_spot;
    assert_int_equal(spots, 2);
    price_feed_close(&feed);
}

static void what_is_no_feed_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "no column t_utc"},
               {"a,b,c\n1,2,3\n", "no column t_utc (or timestamp, time)"},
               {"time,zone,price\n", "no column instance_type"},
               {"{", "line 1"},
               {"[]", "SpotPriceHistory"},
               {"{\"SpotPriceHistory\": 5}", "SpotPriceHistory"}};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(read_text(bad[i].text));
        if (strstr(error.text, bad[i].says) == NULL) fail_msg("%s: %s", bad[i].text, error.text);
    }
    assert_true(read_text("{\"Items\": []}"));
    assert_counts(0, 0, 0, 0);
    price_feed_close(&feed);
}

static void many_faults_are_counted_and_some_kept(void **state)
{
    (void)state;
    static char text[1 << 16];
    size_t length = (size_t)snprintf(text, sizeof text, "time,zone,instance,price\n");
    for (int i = 0; i < 300; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "x\x01,z,i,1\n");
    assert_true(read_text(text));
    assert_counts(0, 0, 0, 300);
    assert_fault(0, 2, "not a time: \"x?\"");
    price_feed_close(&feed);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static char text[1 << 16];
    size_t length = (size_t)snprintf(text, sizeof text, "time,zone,instance,price\n");
    for (int i = 0; i < 600; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "2020-01-01,z%d,i,1\n", i);
    uint32_t failed = 0;
    for (uint64_t nth = 1; nth < 10; nth++) {
        mem_fail_at(nth);
        bool ok = read_text(text);
        mem_fail_at(0);
        failed += !ok;
        if (ok) price_feed_close(&feed);
    }
    assert_int_equal(failed, 3); /* 256, 512, 1024 points */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices),
        cmocka_unit_test(aws),
        cmocka_unit_test(azure),
        cmocka_unit_test(gcp),
        cmocka_unit_test(csv_kinds),
        cmocka_unit_test(names_with_control_bytes_are_malformed),
        cmocka_unit_test(csv),
        cmocka_unit_test(what_is_no_feed_is_said),
        cmocka_unit_test(many_faults_are_counted_and_some_kept),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
