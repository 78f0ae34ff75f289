import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one data node, in a folder: says its addresses, and runs until it is killed. */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    cluster.waitActive();
    System.out.println("WebHDFS at " + cluster.getHttpUri(0));
    System.out.println("HDFS at " + cluster.getFileSystem().getUri());
    Thread.currentThread().join();
  }
}
